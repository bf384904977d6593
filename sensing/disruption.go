package sensing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mash2-io/mash2/api"
)

// labelSet is a pod's labels as one shared string, because pods of a template
// share nearly all of theirs: "a=b,c=d" in order of key. Neither keys nor values
// of labels may have a comma or an equals sign.
type labelSet = unique.Handle[string]

func labelSetOf(l map[string]string) labelSet { return unique.Make(labels.Set(l).String()) }

func labelsOf(s labelSet) labels.Set {
	out := labels.Set{}
	for pair := range strings.SplitSeq(s.Value(), ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			out[k] = v
		}
	}
	return out
}

// budgetRecord is what the cache keeps of a PodDisruptionBudget.
type budgetRecord struct {
	identity
	selector labels.Selector
	budget   api.DisruptionBudget
}

// budgetRecordOf: a nil selector selects nothing and an empty one everything,
// as in policy/v1. One that can't be read selects nothing.
func budgetRecordOf(b *policyv1.PodDisruptionBudget) *budgetRecord {
	r := &budgetRecord{identity: identify(b), selector: labels.Nothing()}
	if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil {
		r.selector = s
	}
	r.budget = api.DisruptionBudget{
		Key:          r.key,
		MinAvailable: amountOf(b.Spec.MinAvailable), MaxUnavailable: amountOf(b.Spec.MaxUnavailable),
		Healthy: b.Status.CurrentHealthy, Desired: b.Status.DesiredHealthy, Allowed: b.Status.DisruptionsAllowed,
		Stale:           b.Status.ObservedGeneration < b.Generation,
		UnhealthyAlways: b.Spec.UnhealthyPodEvictionPolicy != nil && *b.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow,
	}
	return r
}

// amountOf reads a number or a percentage; one that is neither counts as absent,
// as admission lets none through.
func amountOf(v *intstr.IntOrString) *api.Amount {
	if v == nil {
		return nil
	}
	if v.Type == intstr.Int {
		return &api.Amount{Value: v.IntVal}
	}
	percent, err := intstr.GetScaledValueFromIntOrPercent(v, 100, true)
	if err != nil {
		return nil
	}
	return &api.Amount{Value: int32(percent), Percent: true}
}

// claimRecord is what the cache keeps of a PersistentVolumeClaim.
type claimRecord struct {
	identity
	volume string // empty while unbound
}

func claimRecordOf(c *corev1.PersistentVolumeClaim) *claimRecord {
	return &claimRecord{identity: identify(c), volume: c.Spec.VolumeName}
}

// volumeRecord is what the cache keeps of a PersistentVolume.
type volumeRecord struct {
	identity
	zones []string // that it can be reached from, in order; nil for any
	local string   // the key that binds it to some nodes other than by their zone; empty if none does
}

// zoneLabels are the keys by which volumes name a zone: the well-known one, its
// predecessor, and those of the disk drivers of clouds, which name zones as nodes do.
var zoneLabels = []string{
	api.LabelZone, "failure-domain.beta.kubernetes.io/zone", "topology.gke.io/zone", "topology.ebs.csi.aws.com/zone",
	"topology.disk.csi.azure.com/zone", "topology.cinder.csi.openstack.org/zone", "topology.diskplugin.csi.alibabacloud.com/zone",
	"topology.csi.vmware.com/zone", "topology.csi.vmware.com/k8s-zone",
}

// sharedLabels are the keys of volumes that say nothing of one node or one zone: the nodes of
// a cluster's pools have the same region, and a pod's own rules tell systems and machines apart.
var sharedLabels = []string{
	corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion, "topology.csi.vmware.com/region", "topology.csi.vmware.com/k8s-region",
	"csi.hetzner.cloud/location", "topology.linode.com/region", corev1.LabelOSStable, corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

// volumeRecordOf: what binds a volume to nodes by a key that isn't known, or by other than a
// list of zones, counts as a disk of one node, as whether another node reaches it can't be told.
func volumeRecordOf(v *corev1.PersistentVolume) *volumeRecord {
	r := &volumeRecord{identity: identify(v)}
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return r
	}
	anywhere := false
	zones := []string{}
	for _, term := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
		zonal := false
		for _, e := range term.MatchExpressions {
			// Azure's disks of no zone are bound to the empty one.
			within := slices.DeleteFunc(slices.Clone(e.Values), func(zone string) bool { return zone == "" })
			switch zone := slices.Contains(zoneLabels, e.Key); {
			case zone && e.Operator == corev1.NodeSelectorOpIn:
				zones, zonal = append(zones, within...), zonal || len(within) == len(e.Values)
			case zone && e.Operator == corev1.NodeSelectorOpExists, slices.Contains(sharedLabels, e.Key):
			default:
				r.local = cmp.Or(r.local, e.Key)
			}
		}
		for _, e := range term.MatchFields {
			r.local = cmp.Or(r.local, e.Key)
		}
		anywhere = anywhere || !zonal
	}
	if !anywhere {
		slices.Sort(zones)
		r.zones = slices.Compact(zones)
	}
	return r
}

// claimsOf are the names of the claims that a pod's volumes are of.
func claimsOf(pod *corev1.Pod) []string {
	var out []string
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			out = append(out, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			out = append(out, pod.Name+"-"+v.Name)
		}
	}
	return out
}

// ties adds to pods what their budgets and volumes bind them to.
type ties struct {
	budgets map[string][]*budgetRecord // by namespace, in order of name
	matched map[matchKey][]string
	claims  map[api.Key]*claimRecord
	volumes map[string]*volumeRecord
}

type matchKey struct {
	namespace string
	labels    labelSet
}

func (c *caches) ties() *ties {
	t := &ties{
		budgets: map[string][]*budgetRecord{}, matched: map[matchKey][]string{},
		claims: map[api.Key]*claimRecord{}, volumes: map[string]*volumeRecord{},
	}
	for _, b := range c.budgetsInOrder() {
		t.budgets[b.key.Namespace] = append(t.budgets[b.key.Namespace], b)
	}
	for _, r := range records[*claimRecord](c, kindClaim) {
		t.claims[r.key] = r
	}
	for _, r := range records[*volumeRecord](c, kindVolume) {
		t.volumes[r.key.Name] = r
	}
	return t
}

func (c *caches) budgetsInOrder() []*budgetRecord {
	all := records[*budgetRecord](c, kindBudget)
	slices.SortFunc(all, func(a, b *budgetRecord) int { return compareKeys(a.key, b.key) })
	return all
}

func (t *ties) add(p *podRecord, pod *api.Pod) {
	pod.Budgets = t.budgetsOf(p)
	for _, name := range p.claims {
		claim := t.claims[api.Key{Namespace: p.key.Namespace, Name: name}]
		if claim == nil {
			continue
		}
		volume := t.volumes[claim.volume]
		if volume == nil {
			continue
		}
		if volume.local != "" {
			pod.DoNotDisrupt = cmp.Or(pod.DoNotDisrupt, fmt.Sprintf("local volume of claim %s (bound by %s)", name, volume.local))
		}
		switch {
		case volume.zones == nil:
		case pod.Zones == nil:
			pod.Zones = volume.zones
		default:
			pod.Zones = slices.DeleteFunc(slices.Clone(pod.Zones), func(z string) bool { return !slices.Contains(volume.zones, z) })
		}
	}
}

// budgetsOf are the names of the budgets that select a pod.
func (t *ties) budgetsOf(p *podRecord) []string {
	budgets := t.budgets[p.key.Namespace]
	if len(budgets) == 0 {
		return nil
	}
	key := matchKey{p.key.Namespace, p.labels}
	names, ok := t.matched[key]
	if !ok {
		set := labelsOf(p.labels)
		for _, b := range budgets {
			if b.selector.Matches(set) {
				names = append(names, b.key.Name)
			}
		}
		t.matched[key] = names
	}
	return names
}
