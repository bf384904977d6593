package sensing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// usageList is what metrics.k8s.io answered of the pods of some namespaces.
type usageList struct {
	view       *view
	names      map[string]string // of containers
	containers []containerUsage  // room for those to come
	pods       []podUsage
	guess      int32 // where the next pod may be
}

// list asks for the pods of a namespace, or of all where that is empty. Protobuf is read
// field by field: of a hundred thousand pods the objects of the client take ten times the
// memory of what is kept.
func (u *usageSource) list(ctx context.Context, namespace string, to *usageList) error {
	result := u.client.MetricsV1beta1().RESTClient().Get().NamespaceIfScoped(namespace, namespace != "").Resource("pods").Do(ctx)
	var form string
	if result.ContentType(&form); strings.HasPrefix(form, runtime.ContentTypeProtobuf) {
		raw, err := result.Raw()
		if err != nil {
			return err
		}
		return to.protobuf(raw)
	}
	var list metricsv1beta1.PodMetricsList
	if err := result.Into(&list); err != nil {
		return err
	}
	to.objects(&list)
	return nil
}

// objects are the client's.
func (l *usageList) objects(list *metricsv1beta1.PodMetricsList) {
	for i := range list.Items {
		m := &list.Items[i]
		p := l.pod([]byte(m.Namespace), []byte(m.Name))
		p.at, p.window = m.Timestamp.Time, m.Window.Duration
		for _, c := range m.Containers {
			l.add(&p, containerUsage{shared(c.Name), c.Usage.Cpu().AsApproximateFloat64(), c.Usage.Memory().AsApproximateFloat64()})
		}
		l.pods = append(l.pods, p)
	}
}

// pod is a reading without values, with the key and place of the pod if it is there.
func (l *usageList) pod(namespace, name []byte) podUsage {
	// Most answers are in the order of keys.
	if int(l.guess) < len(l.view.pods) {
		if key := &l.view.pods[l.guess].key; key.Name == string(name) && key.Namespace == string(namespace) {
			l.guess++
			return podUsage{key: *key, place: l.guess - 1}
		}
	}
	if i, ok := l.view.podAt.find(namespace, name); ok {
		l.guess = i + 1
		return podUsage{key: l.view.pods[i].key, place: i}
	}
	return podUsage{key: api.Key{Namespace: string(namespace), Name: string(name)}, place: -1}
}

// add a container's reading to the newest pod.
func (l *usageList) add(p *podUsage, c containerUsage) {
	p.milliCPU += c.cpu * 1000
	if cap(l.containers)-len(l.containers) < len(p.containers)+1 {
		l.containers = make([]containerUsage, 0, max(4096, 2*len(p.containers)+2))
		l.containers = append(l.containers, p.containers...)
	}
	l.containers = append(l.containers, c)
	p.containers = l.containers[len(l.containers)-len(p.containers)-1:]
}

var errNoPodMetrics = errors.New("the answer is no PodMetricsList")

// protobuf reads a PodMetricsList in its envelope (k8s.io/metrics,
// pkg/apis/metrics/v1beta1/generated.proto; runtime.Unknown).
func (l *usageList) protobuf(raw []byte) error {
	inside, ok := bytes.CutPrefix(raw, []byte("k8s\x00"))
	if !ok {
		return errNoPodMetrics
	}
	var kind, list []byte
	err := fields(inside, func(number protowire.Number, value []byte, _ uint64) error {
		switch number {
		case 1:
			return fields(value, func(number protowire.Number, value []byte, _ uint64) error {
				if number == 2 {
					kind = value
				}
				return nil
			})
		case 2:
			list = value
		}
		return nil
	})
	if err != nil || string(kind) != "PodMetricsList" {
		return errors.Join(errNoPodMetrics, err)
	}
	return fields(list, func(number protowire.Number, value []byte, _ uint64) error {
		if number == 2 {
			return l.podMetrics(value)
		}
		return nil
	})
}

func (l *usageList) podMetrics(message []byte) error {
	var p podUsage
	var namespace, name []byte
	var at time.Time
	var window int64
	err := fields(message, func(number protowire.Number, value []byte, _ uint64) error {
		switch number {
		case 1:
			return fields(value, func(number protowire.Number, value []byte, _ uint64) error {
				switch number {
				case 1:
					name = value
				case 3:
					namespace = value
				}
				return nil
			})
		case 2:
			if len(value) == 0 {
				return nil // no time
			}
			at = time.Unix(0, 0)
			return fields(value, func(number protowire.Number, _ []byte, value uint64) error {
				if number == 1 {
					at = time.Unix(int64(value), 0) //nolint:gosec // an int64, as protobuf has it
				}
				return nil
			})
		case 3:
			return fields(value, func(_ protowire.Number, _ []byte, value uint64) error {
				window = int64(value) //nolint:gosec // an int64, as protobuf has it
				return nil
			})
		case 4:
			c, err := l.container(value)
			if err == nil {
				l.add(&p, c)
			}
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	of := l.pod(namespace, name)
	p.key, p.place, p.at, p.window = of.key, of.place, at, time.Duration(window)
	l.pods = append(l.pods, p)
	return nil
}

func (l *usageList) container(message []byte) (containerUsage, error) {
	var c containerUsage
	err := fields(message, func(number protowire.Number, value []byte, _ uint64) error {
		switch number {
		case 1:
			name, known := l.names[string(value)]
			if !known {
				name = shared(string(value))
				l.names[name] = name
			}
			c.name = name
		case 2: // an entry of the map of quantities
			var resourceName, quantity []byte
			err := fields(value, func(number protowire.Number, value []byte, _ uint64) error {
				switch number {
				case 1:
					resourceName = value
				case 2:
					return fields(value, func(number protowire.Number, value []byte, _ uint64) error {
						if number == 1 {
							quantity = value
						}
						return nil
					})
				}
				return nil
			})
			if err != nil || len(quantity) == 0 {
				return err
			}
			to := &c.cpu
			switch string(resourceName) {
			case string(corev1.ResourceCPU):
			case string(corev1.ResourceMemory):
				to = &c.memory
			default:
				return nil
			}
			q, err := v1alpha1.ParseQuantity(string(quantity))
			if err != nil {
				return fmt.Errorf("%s of a container: %w", resourceName, err)
			}
			*to = q.AsApproximateFloat64()
		}
		return nil
	})
	return c, err
}

// fields calls each with the number and value of each field of a message: bytes, or a number.
func fields(message []byte, each func(number protowire.Number, value []byte, varint uint64) error) error {
	for len(message) > 0 {
		number, form, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("protobuf: %w", protowire.ParseError(n))
		}
		message = message[n:]
		var value []byte
		var varint uint64
		switch form {
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			varint, n = protowire.ConsumeVarint(message)
		default:
			n = protowire.ConsumeFieldValue(number, form, message)
		}
		if n < 0 {
			return fmt.Errorf("protobuf: %w", protowire.ParseError(n))
		}
		message = message[n:]
		if form != protowire.BytesType && form != protowire.VarintType {
			continue
		}
		if err := each(number, value, varint); err != nil {
			return err
		}
	}
	return nil
}
