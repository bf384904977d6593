package configmap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/strategic"
)

// LastGoodSuffix is appended to the ConfigMap's name for the one that keeps
// the last good content.
const LastGoodSuffix = "-last-good"

// annotationReleased on the last good content has the version of the brake that has
// been taken back.
const annotationReleased = api.Group + "/brake-released"

// syncTimeout bounds how long Start waits for the first look at the ConfigMap.
const syncTimeout = time.Minute

// Source watches one policy ConfigMap. It implements the loop's PolicySource.
type Source struct {
	client          kubernetes.Interface
	namespace, name string
	changed         chan struct{}
	lister          corev1listers.ConfigMapNamespaceLister

	mu       sync.Mutex
	lastGood *api.PolicySpec
	kept     kept  // what the last-good ConfigMap has
	unusable error // why this version can't use what an earlier one kept
	brake    brake // as last seen
}

// kept is what outlives the process and the ConfigMap.
type kept struct {
	data   map[string]string
	paused bool
	// released is the version of the brake that has been taken back already: it
	// doesn't take back what comes later.
	released string
}

func (k kept) equal(o kept) bool {
	return k.paused == o.paused && k.released == o.released && maps.Equal(k.data, o.data)
}

// New returns a Source of the ConfigMap name in namespace. It must be started.
func New(client kubernetes.Interface, namespace, name string) *Source {
	return &Source{client: client, namespace: namespace, name: name, changed: make(chan struct{}, 1)}
}

// Changed receives when the ConfigMap changed.
func (s *Source) Changed() <-chan struct{} { return s.changed }

// Start begins to watch, until ctx ends, and returns when the ConfigMap and
// the last good content were read. It fails when the API server can't be
// reached.
func (s *Source) Start(ctx context.Context) error {
	saved, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, s.name+LastGoodSuffix, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading the last good policy: %w", err)
	default:
		s.recall(saved)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithNamespace(s.namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.name).String()
		}))
	informer := factory.Core().V1().ConfigMaps()
	s.lister = informer.Lister().ConfigMaps(s.namespace)
	wake := func() {
		select {
		case s.changed <- struct{}{}:
		default: // a cycle is due already
		}
	}
	if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, _ any) { wake() },
		DeleteFunc: func(any) { wake() },
		AddFunc:    func(any) { wake() },
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	wait, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(wait.Done(), informer.Informer().HasSynced) {
		return fmt.Errorf("the watch of ConfigMap %s/%s did not start within %v", s.namespace, s.name, syncTimeout)
	}
	return nil
}

// recall takes over what an earlier process kept.
func (s *Source) recall(cm *corev1.ConfigMap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = kept{data: cm.Data, paused: Paused(cm.Annotations), released: cm.Annotations[annotationReleased]}
	if len(cm.Data) == 0 {
		return // only the brake was kept
	}
	spec, err := Parse(cm.Data, nil)
	if err != nil {
		s.unusable = err
		return
	}
	s.lastGood = &spec
}

// Spec returns the present policies. With a ConfigMap that is broken or gone
// they are the last good ones, and a finding says so in every cycle; with none
// ever seen they are the built-in ones, which touch no nodes. A pause stays in
// force when the ConfigMap is gone: only Resume, or "false" or its removal from a
// ConfigMap that is there, lifts it. What is new is kept before it is returned,
// so that what was acted on survives a crash. The brake is read each time, from the
// API server; until that has succeeded once, all is paused.
func (s *Source) Spec(ctx context.Context) (api.PolicySpec, []api.Finding, error) {
	if s.lister == nil {
		return api.PolicySpec{}, nil, errors.New("the policy source was not started")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	unseen := s.look(ctx)
	spec, findings, err := s.read(ctx)
	spec.Paused = spec.Paused || s.brake.on
	return spec, append(findings, unseen...), err
}

// Signals are those of the newest good content, as far as it was read: the last cycle's.
func (s *Source) Signals() []api.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastGood == nil {
		return nil
	}
	return s.lastGood.Signals
}

// read is Spec but for the brake.
func (s *Source) read(ctx context.Context) (api.PolicySpec, []api.Finding, error) {
	cm, err := s.lister.Get(s.name)
	if apierrors.IsNotFound(err) {
		spec, findings := s.fallback("PolicyMissing", fmt.Sprintf("there is no ConfigMap %s/%s", s.namespace, s.name))
		next := s.kept
		if r := s.brake.released; r != "" && r != next.released {
			next.paused, next.released = false, r
		}
		spec.Paused = next.paused
		return spec, append(findings, s.keep(ctx, next)...), nil
	}
	if err != nil {
		return api.PolicySpec{}, nil, err
	}
	spec, err := Parse(cm.Data, cm.Annotations)
	if len(cm.BinaryData) > 0 {
		// kubectl puts a file there when it is not UTF-8.
		err = errors.Join(err, fmt.Errorf("binaryData: must be empty, has %q", slices.Sorted(maps.Keys(cm.BinaryData))))
	}
	var findings []api.Finding
	next := kept{data: cm.Data, paused: Paused(cm.Annotations), released: s.brake.released}
	if err != nil {
		spec, findings = s.fallback("InvalidPolicy", err.Error())
		spec.Paused = next.paused // the brake works whatever the content, and so does the end of a rollback
		if ended, err := rollbackEnded(cm.Annotations); err == nil {
			spec.RollbackEnded = ended
		}
		next.data = s.kept.data
	} else {
		good := spec
		s.lastGood, s.unusable = &good, nil
	}
	return spec, append(findings, s.keep(ctx, next)...), nil
}

// fallback is what is in force for want of a ConfigMap that can be used, and
// why.
func (s *Source) fallback(reason, why string) (api.PolicySpec, []api.Finding) {
	finding := api.Finding{Severity: api.Warning, Agent: api.StrategicAgent, Reason: reason, Object: api.PolicyRef}
	spec := api.PolicySpec{Policies: strategic.Defaults()}
	switch {
	case s.lastGood != nil:
		spec = *s.lastGood
		finding.Message = why + "; the last good policy stays in force"
	case s.unusable != nil:
		finding.Message = fmt.Sprintf("%s; ConfigMap %s/%s has a last good policy that this version can't use (%v), so the built-in %s is in force, without node pools",
			why, s.namespace, s.name+LastGoodSuffix, s.unusable, api.CostSaving)
	default:
		finding.Message = fmt.Sprintf("%s; there has been no valid policy yet, so the built-in %s is in force, without node pools", why, api.CostSaving)
	}
	return spec, []api.Finding{finding}
}

// keep saves what must outlive this process, if it is new.
func (s *Source) keep(ctx context.Context, next kept) []api.Finding {
	if next.equal(s.kept) {
		return nil
	}
	annotations := map[string]string{api.Group + "/description": "The last content of " + s.name + " that mash2 could use. Do not edit."}
	if next.paused {
		annotations[api.AnnotationPaused] = "true"
	}
	if next.released != "" {
		annotations[annotationReleased] = next.released
	}
	good := corev1apply.ConfigMap(s.name+LastGoodSuffix, s.namespace).WithData(next.data).WithAnnotations(annotations)
	_, err := s.client.CoreV1().ConfigMaps(s.namespace).Apply(ctx, good,
		metav1.ApplyOptions{FieldManager: api.FieldManager, Force: true})
	if err != nil {
		return []api.Finding{{
			Severity: api.Warning, Agent: api.StrategicAgent, Reason: "LastGoodPolicyNotSaved", Object: api.PolicyRef,
			Message: fmt.Sprintf("this policy or pause is not saved, so a restart with an invalid or missing ConfigMap would lose it: %v", err),
		}}
	}
	s.kept = kept{data: maps.Clone(next.data), paused: next.paused, released: next.released}
	return nil
}
