package sensing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/sensing/slo"
)

// Kinds under which caches are kept, besides the targets' kinds.
const (
	kindPod             = "Pod"
	kindNode            = "Node"
	kindDaemonSet       = "DaemonSet"
	kindScaler          = "HorizontalPodAutoscaler"
	kindBudget          = "PodDisruptionBudget"
	kindClaim           = "PersistentVolumeClaim"
	kindVolume          = "PersistentVolume"
	kindQuota           = "ResourceQuota"
	kindRange           = "LimitRange"
	kindManagedWorkload = "ManagedWorkload"
	// Of somebody else's installation, which need not be there.
	kindVertical = "VerticalPodAutoscaler"
	kindSloth    = slo.KindSloth
	kindPyrra    = slo.KindPyrra
	kindOpenSLO  = slo.KindOpenSLO
	// Of our own, which an upgrade by helm doesn't install.
	kindStrategy = "Strategy"
	// The Cluster Autoscaler's status ConfigMap.
	kindAutoscalerStatus = "cluster-autoscaler-status"
)

// elsewhere are the kinds that need not be installed.
var elsewhere = map[string]schema.GroupVersionResource{
	kindVertical: verticals,
	kindSloth:    {Group: slo.GroupSloth, Version: "v1", Resource: "prometheusservicelevels"},
	kindPyrra:    {Group: slo.GroupPyrra, Version: "v1alpha1", Resource: "servicelevelobjectives"},
	kindOpenSLO:  {Group: slo.GroupOpenSLO, Version: "v1", Resource: "slos"},
	kindStrategy: v1alpha1.GroupVersion.WithResource("strategies"),
}

// caches are the shared informers, by kind. Their transforms turn every object
// into its record before it is stored.
type caches struct {
	informers map[string]cache.SharedIndexInformer
	shapes    *shapes

	mu     sync.Mutex
	failed map[string]error // last failure to list or watch since it was asked for
	absent map[string]bool  // kinds that the server didn't know when last asked
	order  podOrder         // of the last view
}

// activePods leaves finished pods with the server.
func activePods(o *metav1.ListOptions) {
	o.FieldSelector = "status.phase!=Succeeded,status.phase!=Failed"
}

func newCaches(cfg Config) (*caches, error) {
	proto := rest.CopyConfig(cfg.REST)
	proto.ContentType = runtime.ContentTypeProtobuf
	proto.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(proto)
	if err != nil {
		return nil, fmt.Errorf("making the Kubernetes client: %w", err)
	}
	meta, err := metadata.NewForConfig(cfg.REST)
	if err != nil {
		return nil, fmt.Errorf("making the metadata client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(cfg.REST)
	if err != nil {
		return nil, fmt.Errorf("making the dynamic client: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	c := &caches{
		shapes: newShapes(),
		failed: map[string]error{},
		absent: map[string]bool{},
		informers: map[string]cache.SharedIndexInformer{
			kindPod:         coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, 0, cache.Indexers{}, activePods),
			kindNode:        factory.Core().V1().Nodes().Informer(),
			kindDaemonSet:   factory.Apps().V1().DaemonSets().Informer(),
			kindDeployment:  factory.Apps().V1().Deployments().Informer(),
			kindStatefulSet: factory.Apps().V1().StatefulSets().Informer(),
			kindBudget:      factory.Policy().V1().PodDisruptionBudgets().Informer(),
			kindClaim:       factory.Core().V1().PersistentVolumeClaims().Informer(),
			kindVolume:      factory.Core().V1().PersistentVolumes().Informer(),
			kindScaler:      factory.Autoscaling().V2().HorizontalPodAutoscalers().Informer(),
			kindQuota:       factory.Core().V1().ResourceQuotas().Informer(),
			kindRange:       factory.Core().V1().LimitRanges().Informer(),
			kindReplicaSet: metadatainformer.NewFilteredMetadataInformer(meta,
				appsv1.SchemeGroupVersion.WithResource("replicasets"), metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(),
			kindManagedWorkload: dynamicinformer.NewFilteredDynamicInformer(dyn,
				v1alpha1.GroupVersion.WithResource("managedworkloads"), metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(),
		},
	}
	for kind, resource := range elsewhere {
		c.informers[kind] = dynamicinformer.NewFilteredDynamicInformer(dyn, resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	}
	if of := cfg.AutoscalerStatus; of.Name != "" && cfg.Pools != nil {
		c.informers[kindAutoscalerStatus] = coreinformers.NewFilteredConfigMapInformer(client, of.Namespace, 0, cache.Indexers{},
			func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + of.Name })
	}
	for kind, informer := range c.informers {
		if err := informer.SetTransform(c.transform(cfg)); err != nil {
			return nil, fmt.Errorf("cache of %s: %w", kind, err)
		}
		err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			_, optional := elsewhere[kind]
			if c.absent[kind] = optional && apierrors.IsNotFound(err); !c.absent[kind] {
				c.failed[kind] = err
			}
		})
		if err != nil {
			return nil, fmt.Errorf("cache of %s: %w", kind, err)
		}
	}
	return c, nil
}

// transform turns API objects into records; what is a record already stays.
func (c *caches) transform(cfg Config) cache.TransformFunc {
	return func(obj any) (any, error) {
		switch o := obj.(type) {
		case *corev1.Pod:
			return c.shapes.podRecord(o), nil
		case *corev1.Node:
			return nodeRecordOf(o, cfg.PoolLabel), nil
		case *appsv1.DaemonSet:
			return c.shapes.daemonRecordOf(o), nil
		case *appsv1.Deployment:
			return c.shapes.deploymentRecord(o), nil
		case *appsv1.StatefulSet:
			return c.shapes.statefulSetRecord(o), nil
		case *autoscalingv2.HorizontalPodAutoscaler:
			return scalerRecordOf(o), nil
		case *policyv1.PodDisruptionBudget:
			return budgetRecordOf(o), nil
		case *corev1.PersistentVolumeClaim:
			return claimRecordOf(o), nil
		case *corev1.PersistentVolume:
			return volumeRecordOf(o), nil
		case *corev1.ResourceQuota:
			return quotaRecordOf(o), nil
		case *corev1.LimitRange:
			return rangeRecordOf(o), nil
		case *metav1.PartialObjectMetadata:
			return ownerRecordOf(o), nil
		case *corev1.ConfigMap:
			return statusRecordOf(o), nil
		case *unstructured.Unstructured:
			switch o.GetKind() {
			case kindVertical:
				return verticalRecordOf(o), nil
			case kindSloth, kindPyrra, kindOpenSLO:
				return sloRecordOf(o), nil
			case kindStrategy:
				return strategyRecordOf(o), nil
			}
			var w v1alpha1.ManagedWorkload
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &w); err != nil {
				// An error would keep the whole cache from filling.
				return unreadableWorkload(o, err), nil
			}
			return workloadRecordOf(&w, cfg), nil
		}
		return obj, nil
	}
}

// start runs the informers until ctx ends and waits until they are filled. A
// kind that need not be installed is looked for until it is, every half minute.
func (c *caches) start(ctx context.Context, timeout time.Duration) error {
	for _, informer := range c.informers {
		go informer.RunWithContext(ctx)
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	synced := make([]cache.InformerSynced, 0, len(c.informers))
	for kind, informer := range c.informers {
		synced = append(synced, func() bool { return informer.HasSynced() || c.isAbsent(kind) })
	}
	// What is forbidden stays so: there is nothing to wait for but the other kinds'
	// answers.
	go func() {
		for waiting.Err() == nil {
			if c.forbidden() {
				time.AfterFunc(forbiddenWait, cancel)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	if cache.WaitForCacheSync(waiting.Done(), synced...) {
		return nil
	}
	var errs []error
	failures := c.failures()
	for kind, informer := range c.informers {
		if informer.HasSynced() || c.isAbsent(kind) {
			continue
		}
		if err := failures[kind]; err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", kind, err))
		} else {
			errs = append(errs, errors.New(kind))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if waiting.Err() == context.Canceled && ctx.Err() == nil {
		return fmt.Errorf("rights are missing, see the ClusterRole of the chart: %w", errors.Join(errs...))
	}
	return fmt.Errorf("caches not filled within %v: %w", timeout, errors.Join(errs...))
}

// forbiddenWait is how long the other kinds' answers are waited for when one of them
// was that it is forbidden.
const forbiddenWait = 2 * time.Second

// forbidden reports whether a kind may not be listed or watched.
func (c *caches) forbidden() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, err := range c.failed {
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return true
		}
	}
	return false
}

// isAbsent tells whether the server doesn't know a kind that need not be there.
func (c *caches) isAbsent(kind string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.absent[kind]
}

// failures returns what failed since the last call.
func (c *caches) failures() map[string]error {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed := c.failed
	c.failed = map[string]error{}
	return failed
}

// version up to which the cache of a kind has followed its watch.
func (c *caches) version(kind string) string { return c.informers[kind].LastSyncResourceVersion() }

// resourceVersion of a cached object; ok is false when there is none.
func (c *caches) resourceVersion(kind string, key api.Key) (string, bool) {
	name := key.Name
	if key.Namespace != "" {
		name = key.Namespace + "/" + key.Name
	}
	obj, ok, err := c.informers[kind].GetStore().GetByKey(name)
	if err != nil || !ok {
		return "", false
	}
	m, ok := obj.(metav1.ObjectMetaAccessor)
	if !ok {
		return "", false
	}
	return m.GetObjectMeta().GetResourceVersion(), true
}

// records of a kind, in no order; none of one that is not watched.
func records[R any](c *caches, kind string) []R {
	if c.informers[kind] == nil {
		return nil
	}
	objs := c.informers[kind].GetStore().List()
	out := make([]R, 0, len(objs))
	for _, o := range objs {
		if r, ok := o.(R); ok {
			out = append(out, r)
		}
	}
	return out
}
