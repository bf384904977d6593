package sensing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/strategic/strategy"
)

// maxAnswer of a sensor's host, in bytes.
const maxAnswer = 64 << 10

// sources read what sensors name.
type sources struct {
	client  *http.Client
	objects dynamic.Interface
}

func newSources(cfg Config) (*sources, error) {
	rc := rest.CopyConfig(cfg.REST)
	rc.Timeout = cfg.QueryTimeout
	rc.ContentType, rc.AcceptContentTypes = "", ""
	objects, err := dynamic.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making the client of strategies' objects: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // an allowed host is what is asked, nothing in between
	transport.MaxResponseHeaderBytes = maxAnswer
	return &sources{objects: objects, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// http asks an allowed host.
func (s *sources) http(ctx context.Context, from v1alpha1.HTTPSource) (float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from.URL, http.NoBody)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "mash2")
	answer, err := s.client.Do(r)
	if err != nil {
		// Its text has the whole address, which may hold more than a reader should see.
		if of := (*url.Error)(nil); errors.As(err, &of) {
			err = of.Err
		}
		return 0, fmt.Errorf("asking %s: %w", r.URL.Host, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("it answers %s", answer.Status)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return 0, err
	}
	if len(body) > maxAnswer {
		return 0, fmt.Errorf("its answer is larger than %d KiB", maxAnswer>>10)
	}
	var object any
	if err := json.Unmarshal(body, &object); err != nil {
		return 0, fmt.Errorf("its answer is no JSON: %w", err)
	}
	return strategy.Number(object, from.JSONPath)
}

// object reads one of a namespace.
func (s *sources) object(ctx context.Context, namespace string, from v1alpha1.ObjectSource) (float64, error) {
	version := from.Version
	if version == "" {
		version = "v1"
	}
	resource := schema.GroupVersionResource{Group: from.Group, Version: version, Resource: from.Resource}
	o, err := s.objects.Resource(resource).Namespace(namespace).Get(ctx, from.Name, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	return strategy.Number(o.Object, from.JSONPath)
}
