package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/strategic/strategy"
)

// AliasSensor is a sensor as data-connector's API lists it.
type AliasSensor struct {
	ID       string  `json:"id"`
	Name     string  `json:"name"`
	FuncName string  `json:"func_name"`
	Trigger  string  `json:"trigger_str"`
	Next     *string `json:"next_run_time"`
}

// alias serves the paths of data-connector (bsc-scanflow/data-connector) for who comes from
// there: sensors are NAMESPACE/STRATEGY/SENSOR, rules and actuators NAMESPACE/STRATEGY/RULE.
// Its answers and errors have its form. A request must bring its own token, which no other
// site's page can: so none needs the header of /api/v1.
func (s *Server) alias(mux *http.ServeMux) {
	handle := func(pattern string, do func(v Viewer, r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			out, err := func() (any, error) {
				v, err := s.viewer(r)
				if err != nil && (r.Method == http.MethodGet || !errors.Is(err, errNoCycle)) {
					return nil, err
				}
				if r.Method != http.MethodGet && s.Actor == nil {
					return nil, &RefusedError{http.StatusForbidden, "this page only shows"}
				}
				if r.Method != http.MethodGet && token(r) == "" {
					return nil, errNoToken
				}
				return do(v, r)
			}()
			if err != nil {
				aliasFail(w, err)
				return
			}
			send(w, r, http.StatusOK, out)
		})
	}
	said := func(err error, format string, args ...any) (any, error) {
		return map[string]string{"detail": fmt.Sprintf(format, args...)}, err
	}
	handle("GET /sensors/event/{$}", func(Viewer, *http.Request) (any, error) {
		return map[string]string{"Hello": "monitor trigger sensors"}, nil
	})
	handle("GET /sensors/event/get/all", func(v Viewer, _ *http.Request) (any, error) {
		out := []AliasSensor{}
		for _, x := range s.Store.sensors(v) {
			out = append(out, aliasOf(x))
		}
		return out, nil
	})
	handle("GET /sensors/event/get", func(v Viewer, r *http.Request) (any, error) {
		for _, x := range s.Store.sensors(v) {
			if x.ID == r.URL.Query().Get("sensor_id") {
				return aliasOf(x), nil
			}
		}
		return nil, &RefusedError{http.StatusNotFound, "sensor is not found"}
	})
	handle("POST /sensors/event/add/{kind}", func(_ Viewer, r *http.Request) (any, error) {
		id := r.URL.Query().Get("sensor_name")
		key, name, err := partsOf(id)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		if err != nil {
			return nil, badf("the body can't be read: %v", err)
		}
		var sensor v1alpha1.Sensor
		if err := strategy.Decode(body, &sensor); err != nil {
			return nil, badf("%v", err)
		}
		if !strings.HasPrefix(trigger(sensor.When), r.PathValue("kind")+"[") {
			return nil, badf("trigger is not allowed")
		}
		return said(s.putSensor(r, key, name, body), "%s has been added", id)
	})
	handle("DELETE /sensors/event/remove", func(_ Viewer, r *http.Request) (any, error) {
		id := r.URL.Query().Get("sensor_id")
		key, name, err := partsOf(id)
		if err != nil {
			return nil, err
		}
		return said(s.removeSensor(r, key, name), "%s has been removed", id)
	})
	handle("DELETE /sensors/event/remove/all", func(_ Viewer, r *http.Request) (any, error) {
		key, name, err := partsOf(r.URL.Query().Get("strategy") + "/")
		if err != nil || name != "" {
			return nil, badf("strategy: must be NAMESPACE/STRATEGY, whose sensors are to be removed")
		}
		return said(s.change(r, key, func(spec *v1alpha1.StrategySpec) error {
			spec.Sensors = nil
			return nil
		}), "all sensors of %s have been removed", key)
	})
	handle("POST /sensors/{namespace}/{name}/{sensor}", func(_ Viewer, r *http.Request) (any, error) {
		return said(s.trigger(r, keyOf(r), api.SensorTarget(r.PathValue("sensor"))), "%s is read in the next cycle", r.PathValue("sensor"))
	})
	for _, word := range []string{"rules", "actuators"} {
		handle("GET /"+word+"/get/all", func(v Viewer, _ *http.Request) (any, error) {
			out := []map[string]any{}
			for _, of := range s.Store.strategies(v) {
				for _, rule := range of.Rules {
					out = append(out, map[string]any{"id": of.Key.String() + "/" + rule.Name, "name": rule.Name, "on": rule.On, "detail": rule.Reason})
				}
			}
			return out, nil
		})
		handle("POST /"+word+"/{namespace}/{name}/{rule}", func(_ Viewer, r *http.Request) (any, error) {
			return said(s.trigger(r, keyOf(r), api.RuleTarget(r.PathValue("rule"))), "%s is turned on in the next cycle", r.PathValue("rule"))
		})
	}
}

func aliasOf(x SensorView) AliasSensor {
	out := AliasSensor{ID: x.ID, Name: x.Name, FuncName: x.Source, Trigger: x.Trigger}
	if x.Next != nil {
		text := x.Next.UTC().Format("2006-01-02T15:04:05Z07:00")
		out.Next = &text
	}
	return out
}

// partsOf reads NAMESPACE/STRATEGY/NAME.
func partsOf(id string) (api.Key, string, error) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" {
		return api.Key{}, "", badf("sensor: must be NAMESPACE/STRATEGY/SENSOR, is %q", id)
	}
	return api.Key{Namespace: parts[0], Name: parts[1]}, parts[2], nil
}

// aliasFail writes an error in the form of FastAPI.
func aliasFail(w http.ResponseWriter, err error) {
	if errors.Is(err, errNotThere) {
		err = &RefusedError{http.StatusNotFound, "sensor is not found"}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statusOf(w, err))
	_ = json.NewEncoder(w).Encode(map[string]string{"detail": err.Error()})
}
