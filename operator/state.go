package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/record"
)

// Bounds of the state that is kept in ConfigMaps.
const (
	// stateEvery is the least time between two writes.
	stateEvery = time.Minute
	// statePart is the most that a ConfigMap holds; the API server takes 1 MiB.
	statePart = 900_000
	// stateParts is the most ConfigMaps of one state. The chart grants their names.
	stateParts = 3
	// stateTimeout bounds a write or a read of all of them.
	stateTimeout = 5 * time.Second
)

// stateKey of a ConfigMap's binaryData.
const stateKey = "state"

// Reasons of findings about state in ConfigMaps.
const (
	reasonStateNotSaved = "StateNotSaved"
	reasonStateTooLarge = "StateTooLarge"
	reasonStateRefused  = "StateRefused"
)

// stateMaps keep, for the leader on another node, what of a memory history doesn't give
// back: in two sets of ConfigMaps that are written in turn, so that a process that dies
// in between leaves the one before. It implements mash2.Checkpoints.
type stateMaps struct {
	client          kubernetes.Interface
	namespace, name string
	codec           *record.Codec[planning.Kept]
	part            int // bytes of a ConfigMap, at most

	tried   time.Time
	set     int    // to write to next
	failing string // the reason that was told
}

func newStateMaps(client kubernetes.Interface, namespace, name, program string) (*stateMaps, error) {
	codec, err := record.NewCodec[planning.Kept](program)
	return &stateMaps{client: client, namespace: namespace, name: name, codec: codec, part: statePart}, err
}

// mapName is the name of a part of a set.
func (s *stateMaps) mapName(set, part int) string { return fmt.Sprintf("%s-%d-%d", s.name, set, part) }

// Save implements mash2.Checkpoints: it writes at most once a minute, unless it is urgent.
func (s *stateMaps) Save(m planning.Memory, at time.Time, urgent bool) []api.Finding {
	if age := at.Sub(s.tried); !urgent && !s.tried.IsZero() && age >= 0 && age < stateEvery {
		return nil
	}
	s.tried = at
	reason, err := s.write(m, at)
	if reason == s.failing {
		return nil // told, or nothing to tell
	}
	s.failing = reason
	if err == nil {
		return nil
	}
	return []api.Finding{{
		Severity: api.Warning, Reason: reason, Object: api.ObjectRef{Kind: "checkpoint"},
		Message: fmt.Sprintf("a leader on another node would start without trust in forecasts, stabilization and cooldowns; planning continues: %v", err),
	}}
}

func (s *stateMaps) write(m planning.Memory, at time.Time) (reason string, err error) {
	b, err := s.codec.Encode(m.Kept(), at)
	if err != nil {
		return reasonStateNotSaved, err
	}
	parts := record.Split(b, s.part)
	if len(parts) > stateParts {
		return reasonStateTooLarge, fmt.Errorf("the state of %d workloads takes %d bytes, more than %d ConfigMaps of %d hold: keep checkpoints on a shared volume (records.claim)",
			len(m.Workloads), len(b), stateParts, s.part)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	for i, p := range parts {
		cm := corev1apply.ConfigMap(s.mapName(s.set, i), s.namespace).
			WithAnnotations(map[string]string{api.Group + "/description": "What the leader of mash2 has learnt, for the next one. Do not edit."}).
			WithBinaryData(map[string][]byte{stateKey: p})
		if _, err := s.client.CoreV1().ConfigMaps(s.namespace).Apply(ctx, cm, metav1.ApplyOptions{FieldManager: api.FieldManager, Force: true}); err != nil {
			return reasonStateNotSaved, err
		}
	}
	s.set = 1 - s.set
	return "", nil
}

// errUnread is of a state that the API server doesn't give now.
var errUnread = errors.New("it can't be read now")

// Load implements mash2.Checkpoints: the newest set that is whole.
func (s *stateMaps) Load() (m planning.Memory, kept time.Time, notes []api.Finding, unread error) {
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	for set := range 2 {
		k, at, err := s.read(ctx, set)
		switch {
		case apierrors.IsNotFound(err):
		case errors.Is(err, errUnread):
			return planning.Memory{}, time.Time{}, notes, fmt.Errorf("ConfigMap %s: %w", s.mapName(set, 0), err)
		case err != nil:
			notes = append(notes, api.Finding{
				Severity: api.Warning, Reason: reasonStateRefused, Object: api.ObjectRef{Kind: "checkpoint"},
				Message: fmt.Sprintf("the state in ConfigMap %s is not used: %v", s.mapName(set, 0), err),
			})
			if kept.IsZero() {
				s.set = set
			}
		case at.After(kept):
			m, kept, s.set = k.Restored(), at, 1-set
		}
	}
	return m, kept, notes, nil
}

// read returns a set. The error is apierrors.IsNotFound's where it was never written, and errUnread where
// the API server doesn't say.
func (s *stateMaps) read(ctx context.Context, set int) (k planning.Kept, at time.Time, err error) {
	var parts [][]byte
	var whole []byte
	for i := range stateParts {
		cm, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, s.mapName(set, i), metav1.GetOptions{})
		if err != nil {
			switch {
			case apierrors.IsForbidden(err): // for good
			case !apierrors.IsNotFound(err):
				err = fmt.Errorf("%w: %w", errUnread, err)
			case i > 0:
				err = record.ErrParts
			}
			return k, at, err
		}
		parts = append(parts, cm.BinaryData[stateKey])
		if whole, err = record.Join(parts); err == nil {
			k, at, err = s.codec.Decode(whole)
			return k, at, err
		}
	}
	return k, at, record.ErrParts
}

// newest are checkpoints in several places: the newest is loaded, of the same time that
// of the first place, and all are written.
type newest []mash2.Checkpoints

// Load implements mash2.Checkpoints.
func (n newest) Load() (m planning.Memory, kept time.Time, notes []api.Finding, unread error) {
	for _, c := range n {
		v, at, said, err := c.Load()
		notes, unread = append(notes, said...), errors.Join(unread, err)
		if at.After(kept) {
			m, kept = v, at
		}
	}
	return m, kept, notes, unread
}

// Save implements mash2.Checkpoints.
func (n newest) Save(m planning.Memory, at time.Time, urgent bool) (notes []api.Finding) {
	for _, c := range n {
		notes = append(notes, c.Save(m, at, urgent)...)
	}
	return notes
}
