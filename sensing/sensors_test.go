package sensing

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/api"
)

// strategy puts a Strategy with sensors into the world's cache.
func (w *world) strategy(namespace, name, sensors string, triggered ...string) {
	w.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	text := fmt.Sprintf("{apiVersion: mash2.io/v1alpha1, kind: Strategy, metadata: {name: %s, namespace: %s}, spec: {outputs: {x: '1'}, sensors: %s}}", name, namespace, sensors)
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		w.t.Fatal(err)
	}
	if len(triggered) > 0 {
		o.SetAnnotations(map[string]string{api.AnnotationTriggered: triggered[0]})
	}
	w.put(o)
}

// TestSensorsOfHosts: an allowed host is asked, and nothing that it sends makes mash2 ask
// another one, keep much, or wait.
func TestSensorsOfHosts(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	var inside atomic.Int64
	internal := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside.Add(1) }))
	t.Cleanup(internal.Close)
	var mu sync.Mutex
	asked := map[string]http.Header{}
	host := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path] = r.Header
		mu.Unlock()
		switch r.URL.Path {
		case "/good":
			_, _ = io.WriteString(rw, `{"price": "0.07"}`)
		case "/redirect":
			http.Redirect(rw, r, internal.URL+"/secret", http.StatusFound)
		case "/large":
			_, _ = io.WriteString(rw, `{"price": "`+strings.Repeat("1", maxAnswer)+`"}`)
		case "/nan":
			_, _ = io.WriteString(rw, `{"price": "NaN"}`)
		case "/text":
			_, _ = io.WriteString(rw, "five")
		case "/slow":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		default:
			http.NotFound(rw, r)
		}
	}))
	t.Cleanup(host.Close)
	here := strings.TrimPrefix(host.URL, "http://")
	w := newWorld(t, func(cfg *Config) {
		cfg.SensorHosts = []string{"shop/" + here, "api.example.com"}
	})
	sensor := func(name, url string) string {
		return fmt.Sprintf("{name: %s, http: {url: '%s', jsonPath: '{.price}'}}", name, url)
	}
	var sensors []string
	for _, name := range []string{"good", "redirect", "large", "nan", "text", "slow", "none"} {
		sensors = append(sensors, sensor(name, host.URL+"/"+name))
	}
	sensors = append(sensors, sensor("inside", internal.URL), sensor("metadata", "http://169.254.169.254/latest"))
	w.strategy("shop", "a", "["+strings.Join(sensors, ", ")+"]")
	w.strategy("bank", "b", "["+sensor("theirs", host.URL+"/theirs")+"]")
	readings := func() map[string]string {
		out := map[string]string{}
		for _, s := range w.observe().Context.Strategies {
			for _, r := range s.Readings {
				out[r.Sensor] = r.Missing
				if r.Missing == "" {
					out[r.Sensor] = fmt.Sprint(r.Value)
				}
			}
		}
		return out
	}
	got := readings()
	for name, want := range map[string]string{
		"good": "0.07", "redirect": "it answers 302 Found", "large": "larger than 64 KiB", "nan": "it is NaN", "text": "no JSON", "slow": "deadline exceeded",
		"none": "it answers 404", "inside": "http.url: mash2's owner has not allowed 127.0.0.1:", "metadata": "has not allowed 169.254.169.254 for namespace shop (--sensor-host)",
		"theirs": "for namespace bank",
	} {
		if !strings.Contains(got[name], want) {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	// A question that ran out of time may still be on its way to the host.
	mu.Lock()
	defer mu.Unlock()
	if inside.Load() > 0 || asked["/theirs"] != nil {
		t.Errorf("%d questions to a host that is not allowed, and of a namespace that is not: %v", inside.Load(), asked["/theirs"])
	}
	for name := range asked["/good"] {
		if name != "Accept" && name != "User-Agent" && name != "Accept-Encoding" {
			t.Errorf("it is sent %s", name)
		}
	}
}

// TestSensorsOfObjects: objects are those of the strategy's own namespace.
func TestSensorsOfObjects(t *testing.T) {
	var mu sync.Mutex
	var paths []string
	w := newWorld(t, nil)
	kube := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		paths = append(paths, r.URL.Path)
		mu.Unlock()
		rw.Header().Set("Content-Type", "application/json")
		if !strings.HasSuffix(r.URL.Path, "/doors") {
			rw.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(rw, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"configmaps is forbidden","code":403}`)
			return
		}
		_, _ = io.WriteString(rw, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"doors"},"data":{"open":"7"}}`)
	}))
	t.Cleanup(kube.Close)
	cfg := w.cfg
	cfg.REST.Host = kube.URL
	var err error
	if w.strategies.sources, err = newSources(cfg); err != nil {
		t.Fatal(err)
	}
	w.strategy("shop", "a", `[{name: doors, object: {resource: configmaps, name: doors, jsonPath: '{.data.open}'}},
		{name: other, object: {group: apps, version: v1, resource: deployments, name: web, jsonPath: '{.data.open}'}}]`)
	got := map[string]string{}
	for _, r := range w.observe().Context.Strategies[0].Readings {
		got[r.Sensor] = fmt.Sprint(r.Value, r.Missing)
	}
	if got["doors"] != "7" || got["other"] != "0configmaps is forbidden" {
		t.Errorf("%v", got)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, path := range paths {
		if path != "/api/v1/namespaces/shop/configmaps/doors" && path != "/apis/apps/v1/namespaces/shop/deployments/web" {
			t.Errorf("it asks for %s", path)
		}
	}
}

// TestSensorTriggeredByHand: a sensor that is not due is read once when a person wants it.
func TestSensorTriggeredByHand(t *testing.T) {
	var asked atomic.Int64
	host := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(rw, `{"n": %d}`, asked.Add(1))
	}))
	t.Cleanup(host.Close)
	w := newWorld(t, func(cfg *Config) { cfg.SensorHosts = []string{strings.TrimPrefix(host.URL, "http://")} })
	put := func(annotation string) {
		w.strategy("shop", "a", fmt.Sprintf("[{name: doors, http: {url: '%s', jsonPath: '{.n}'}, when: {interval: {every: 24h}}}]", host.URL), annotation)
	}
	read := func(want float64) {
		t.Helper()
		for range 3 {
			if r := w.observe().Context.Strategies[0].Readings[0]; r.Missing != "" || r.Value != want {
				t.Errorf("%+v, want %g", r, want)
			}
		}
	}
	put("")
	read(1)
	for _, annotation := range []string{"no JSON", `{"sensor/doors": 5}`, `{"rule/doors": "` + w.clock.Now().Format("2006-01-02T15:04:05.999999999Z07:00") + `"}`} {
		put(annotation)
		read(1)
	}
	w.clock.Step(time.Second)
	put(`{"sensor/doors": "` + w.clock.Now().UTC().Format("2006-01-02T15:04:05.999999999Z07:00") + `"}`)
	w.clock.Step(time.Second)
	read(2)
}
