package operator

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
)

var stateEpoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// remembered is a memory of so many workloads that tells one number from another.
func remembered(workloads int, number int32) planning.Memory {
	m := planning.Memory{Policy: fmt.Sprint("pool-", number), Start: stateEpoch}
	for i := range workloads {
		m.Workloads = append(m.Workloads, planning.WorkloadMemory{
			Key: api.Key{Namespace: "shop", Name: fmt.Sprintf("app-%05d", i)}, Replicas: number, IdleSince: stateEpoch.Add(time.Duration(i*i*7919) * time.Millisecond),
		})
	}
	return m
}

func newTestMaps(t *testing.T, client *fake.Clientset, part int) *stateMaps {
	t.Helper()
	s, err := newStateMaps(client, "mash2-system", "mash2-state", "v1")
	if err != nil {
		t.Fatal(err)
	}
	s.part = part
	return s
}

// partSize is of a ConfigMap in these tests, bytes: a state of 300 workloads is in three.
const partSize = 5120

// loaded is the pool of what the next leader loads, and the reasons of what it says.
func loaded(t *testing.T, client *fake.Clientset, part int) (pool string, reasons []string) {
	t.Helper()
	m, _, notes, _ := newTestMaps(t, client, part).Load()
	for _, n := range notes {
		reasons = append(reasons, n.Reason)
	}
	return m.Policy, reasons
}

// parts are the ConfigMaps that there are, by name.
func parts(t *testing.T, client *fake.Clientset) map[string]*corev1.ConfigMap {
	t.Helper()
	list, err := client.CoreV1().ConfigMaps("mash2-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*corev1.ConfigMap{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// TestStateInConfigMaps: the next leader has the newest state; it is written once a
// minute at most, in parts, and two sets take turns.
func TestStateInConfigMaps(t *testing.T) {
	client := fake.NewClientset()
	s := newTestMaps(t, client, partSize)
	if m, kept, notes, _ := s.Load(); !kept.IsZero() || len(notes) > 0 || len(m.Workloads) > 0 {
		t.Errorf("before the first: %v, %v", kept, notes)
	}
	for i := range int32(20) { // 15 s apart: 5 minutes
		if notes := s.Save(remembered(300, i), stateEpoch.Add(time.Duration(i)*15*time.Second), false); len(notes) > 0 {
			t.Fatal(notes)
		}
	}
	writes, sets := 0, map[string]bool{}
	for _, a := range client.Actions() {
		if a.GetVerb() == "patch" {
			writes++
			sets[a.(clienttesting.PatchAction).GetName()] = true
		}
	}
	n := len(sets) / 2
	if n < 2 || n > stateParts || len(sets) != 2*n || writes != 5*n {
		t.Errorf("%d writes to %v: want five of two or three ConfigMaps in two sets", writes, sets)
	}
	for name, cm := range parts(t, client) {
		if len(cm.BinaryData[stateKey]) > partSize {
			t.Errorf("%s has %d bytes", name, len(cm.BinaryData[stateKey]))
		}
	}
	m, kept, notes, _ := newTestMaps(t, client, partSize).Load()
	if diff := cmp.Diff(remembered(300, 16).Workloads, m.Workloads); diff != "" || !kept.Equal(stateEpoch.Add(4*time.Minute)) || len(notes) > 0 {
		t.Errorf("kept %v, notes %v:\n%s", kept, notes, diff)
	}
	// A rollback doesn't wait.
	back := remembered(300, 17)
	back.Rollback = &planning.RolledBack{Rollback: api.Rollback{At: stateEpoch, SLO: "x"}, Scales: []planning.KeptScale{{Replicas: 3}}}
	s.Save(back, stateEpoch.Add(19*15*time.Second+time.Second), true)
	if m, _, _, _ := newTestMaps(t, client, partSize).Load(); m.Rollback == nil || !cmp.Equal(m.Rollback, back.Rollback) {
		t.Errorf("kept %+v", m.Rollback)
	}
}

// TestStateDamaged: one of two sets that is damaged or was not written whole is not
// used, which is said, and the one before is.
func TestStateDamaged(t *testing.T) {
	for name, damage := range map[string]func(*corev1.ConfigMap){
		"a bit is wrong": func(cm *corev1.ConfigMap) { cm.BinaryData[stateKey][40] ^= 4 },
		"cut off": func(cm *corev1.ConfigMap) {
			cm.BinaryData[stateKey] = cm.BinaryData[stateKey][:len(cm.BinaryData[stateKey])-1]
		},
		"emptied":     func(cm *corev1.ConfigMap) { cm.BinaryData = nil },
		"by somebody": func(cm *corev1.ConfigMap) { cm.BinaryData[stateKey] = bytes.Repeat([]byte("x"), 100) },
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			s := newTestMaps(t, client, partSize)
			s.Save(remembered(300, 1), stateEpoch, false)
			s.Save(remembered(300, 2), stateEpoch.Add(time.Minute), false)
			for _, at := range []string{"mash2-state-1-0", "mash2-state-1-1"} {
				cm := parts(t, client)[at]
				whole := cm.DeepCopy()
				damage(cm)
				if _, err := client.CoreV1().ConfigMaps("mash2-system").Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
				pool, reasons := loaded(t, client, partSize)
				if diff := cmp.Diff([]string{reasonStateRefused}, reasons); pool != "pool-1" || diff != "" {
					t.Errorf("%s: %s is loaded:\n%s", at, pool, diff)
				}
				if _, err := client.CoreV1().ConfigMaps("mash2-system").Update(t.Context(), whole, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if pool, reasons := loaded(t, client, partSize); pool != "pool-2" || len(reasons) > 0 {
				t.Errorf("mended: %s is loaded, %v", pool, reasons)
			}
		})
	}
}

// TestStateWrittenInPart: a leader that dies between two parts leaves the state before;
// the next leader writes over what it began.
func TestStateWrittenInPart(t *testing.T) {
	client := fake.NewClientset()
	failing, writes := false, 0
	client.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		if writes++; failing && writes > 1 {
			return true, nil, errors.New("no route to host")
		}
		return false, nil, nil
	})
	s := newTestMaps(t, client, partSize)
	s.Save(remembered(300, 1), stateEpoch, false)
	s.Save(remembered(300, 2), stateEpoch.Add(time.Minute), false)
	failing, writes = true, 0
	notes := s.Save(remembered(300, 3), stateEpoch.Add(2*time.Minute), false)
	if len(notes) != 1 || notes[0].Reason != reasonStateNotSaved || !strings.Contains(notes[0].Message, "no route to host") {
		t.Errorf("notes %v", notes)
	}
	if notes := s.Save(remembered(300, 3), stateEpoch.Add(3*time.Minute), false); len(notes) > 0 {
		t.Errorf("said twice: %v", notes)
	}
	if pool, reasons := loaded(t, client, partSize); pool != "pool-2" || len(reasons) != 1 {
		t.Errorf("%s is loaded, %v", pool, reasons)
	}
	failing = false
	next := newTestMaps(t, client, partSize)
	if _, _, _, err := next.Load(); err != nil {
		t.Error(err)
	}
	if notes := next.Save(remembered(300, 4), stateEpoch.Add(4*time.Minute), false); len(notes) > 0 {
		t.Error(notes)
	}
	if pool, reasons := loaded(t, client, partSize); pool != "pool-4" || len(reasons) > 0 {
		t.Errorf("then %s is loaded, %v", pool, reasons)
	}
}

// TestStateTooLarge: a state that is too large is not written at all, which is said.
func TestStateTooLarge(t *testing.T) {
	client := fake.NewClientset()
	s := newTestMaps(t, client, 1024)
	notes := s.Save(remembered(3000, 1), stateEpoch, false)
	if len(notes) != 1 || notes[0].Reason != reasonStateTooLarge || !strings.Contains(notes[0].Message, "3000 workloads") {
		t.Errorf("notes %v", notes)
	}
	if n := len(client.Actions()); n > 0 {
		t.Errorf("%d requests", n)
	}
}

// TestNewest: of several places the newest is loaded, and of the same time the first.
func TestNewest(t *testing.T) {
	place := func(pool string, at time.Time) fixed { return fixed{planning.Memory{Policy: pool}, at} }
	for name, c := range map[string]struct {
		places newest
		want   string
	}{
		"the same time":       {newest{place("file", stateEpoch), place("map", stateEpoch)}, "file"},
		"the second is newer": {newest{place("file", stateEpoch), place("map", stateEpoch.Add(time.Second))}, "map"},
		"only the second":     {newest{place("", time.Time{}), place("map", stateEpoch)}, "map"},
		"none":                {newest{place("", time.Time{})}, ""},
	} {
		if m, _, _, _ := c.places.Load(); m.Policy != c.want {
			t.Errorf("%s: %q is loaded, want %q", name, m.Policy, c.want)
		}
	}
}

// fixed is a place with one checkpoint.
type fixed struct {
	memory planning.Memory
	at     time.Time
}

func (f fixed) Load() (planning.Memory, time.Time, []api.Finding, error) {
	return f.memory, f.at, nil, nil
}
func (f fixed) Save(planning.Memory, time.Time, bool) []api.Finding { return nil }

// TestStateThatCantBeReadNow: while the API server doesn't say, there may be a state. It is neither taken for
// none, nor for one that is damaged; a right that lacks is there for good.
func TestStateThatCantBeReadNow(t *testing.T) {
	client := fake.NewClientset()
	if s := newTestMaps(t, client, partSize); len(s.Save(remembered(3, 7), stateEpoch, true)) > 0 {
		t.Fatal("not saved")
	}
	var fails error
	client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return fails != nil, nil, fails
	})
	fails = errors.New("etcdserver: request timed out")
	places := newest{newTestMaps(t, client, partSize)}
	if _, kept, notes, err := places.Load(); !errors.Is(err, errUnread) || !kept.IsZero() || len(notes) > 0 {
		t.Errorf("kept %v, notes %v, error %v", kept, notes, err)
	}
	fails = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "mash2-state", errors.New("no"))
	if _, _, notes, err := places.Load(); err != nil || len(notes) != 2 {
		t.Errorf("without the right: notes %v, error %v", notes, err)
	}
	fails = nil
	if m, kept, notes, err := places.Load(); err != nil || len(notes) > 0 || !kept.Equal(stateEpoch) || len(m.Workloads) != 3 {
		t.Errorf("kept %v, notes %v, error %v", kept, notes, err)
	}
}
