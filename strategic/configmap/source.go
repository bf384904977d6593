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
	saved    map[string]string // content of the last-good ConfigMap
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
		s.recall(saved.Data)
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

// recall takes over what an earlier process kept. Content that this version
// no longer accepts is as good as none.
func (s *Source) recall(data map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if spec, err := Parse(data, nil); err == nil {
		s.lastGood, s.saved = &spec, data
	}
}

// Spec returns the present policies. With a ConfigMap that is broken or gone
// they are the last good ones, and a finding says so in every cycle; with none
// ever seen they are the built-in ones, which touch no nodes. A new good
// content is kept before it is returned, so that what was acted on survives a
// crash.
func (s *Source) Spec(ctx context.Context) (api.PolicySpec, []api.Finding, error) {
	if s.lister == nil {
		return api.PolicySpec{}, nil, errors.New("the policy source was not started")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	cm, err := s.lister.Get(s.name)
	if apierrors.IsNotFound(err) {
		return s.fallback(nil, "PolicyMissing", fmt.Sprintf("there is no ConfigMap %s/%s", s.namespace, s.name))
	}
	if err != nil {
		return api.PolicySpec{}, nil, err
	}
	spec, err := Parse(cm.Data, cm.Annotations)
	if len(cm.BinaryData) > 0 {
		// kubectl puts a file there when it is not UTF-8.
		err = errors.Join(err, fmt.Errorf("binaryData: must be empty, has %q", slices.Sorted(maps.Keys(cm.BinaryData))))
	}
	if err != nil {
		return s.fallback(cm, "InvalidPolicy", err.Error())
	}
	good := spec
	s.lastGood = &good
	if maps.Equal(s.saved, cm.Data) {
		return spec, nil, nil
	}
	if err := s.keep(ctx, cm.Data); err != nil {
		return spec, []api.Finding{{
			Severity: api.Warning, Agent: api.StrategicAgent, Reason: "LastGoodPolicyNotSaved", Object: "policy",
			Message: fmt.Sprintf("a crash now, followed by a broken ConfigMap, would forget this policy: %v", err),
		}}, nil
	}
	s.saved = maps.Clone(cm.Data)
	return spec, nil, nil
}

func (s *Source) fallback(cm *corev1.ConfigMap, reason, why string) (api.PolicySpec, []api.Finding, error) {
	finding := api.Finding{Severity: api.Warning, Agent: api.StrategicAgent, Reason: reason, Object: "policy"}
	spec := api.PolicySpec{Policies: strategic.Defaults()}
	if s.lastGood != nil {
		spec = *s.lastGood
		finding.Message = why + "; the last good policy stays in force"
	} else {
		finding.Message = fmt.Sprintf("%s; no good one was ever seen, so the built-in %s is in force, without node pools", why, api.CostSaving)
	}
	spec.Paused = false
	if cm != nil {
		// The brake works whatever the content.
		spec.Paused = Paused(cm.Annotations)
	}
	return spec, []api.Finding{finding}, nil
}

func (s *Source) keep(ctx context.Context, data map[string]string) error {
	good := corev1apply.ConfigMap(s.name+LastGoodSuffix, s.namespace).WithData(data).
		WithAnnotations(map[string]string{api.Group + "/description": "The last content of " + s.name + " that mash2 could use. Do not edit."})
	_, err := s.client.CoreV1().ConfigMaps(s.namespace).Apply(ctx, good,
		metav1.ApplyOptions{FieldManager: api.FieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("saving the last good policy: %w", err)
	}
	return nil
}
