// Package placement answers one question: would these pods fit there? The node
// planner asks it of nodes that may be bought, execution of nodes that are there,
// the simulator in the scheduler's stead. It decides by the hard rules of
// kube-scheduler, and by nothing else:
//
//   - node selector and required node affinity (Site.Admits),
//   - taints of effect NoSchedule and NoExecute (Site.Admits),
//   - zones that a pod's volumes can be reached from (InZones),
//   - resources, extended ones included (Copies),
//   - the copies that a node or a zone may hold, as host ports and required
//     anti-affinity to a pod's own copies bound them (Space.Place, Level),
//   - topology spread over zones that must be kept (Level).
//
// # What is not understood
//
// Some rules that the scheduler heeds are not known here: required affinity to pods,
// anti-affinity to others than a pod's own copies, topology spread over other keys
// than zones or that counts others, host ports that others hold, resource claims, and
// how many volumes a node takes. All but the last are named in api.PodShape.Unheeded, or in
// api.Pod.Unheeded where it depends on which pods there are. Nobody is moved on
// a guess about them: a pod under such a rule that would have to leave its node before
// another one runs in its stead stays where it is, and its node with it (Unsure). New
// replicas are given nodes by what is known; one that stays pending all the same is
// seen as unschedulable in the next cycle, and nothing is given up for it. Preferences
// and scores are not looked at: they never decide whether a pod fits.
//
// Nothing is placed on a cordoned node, although a pod that tolerates every taint may go
// there.
//
// What is written here but can't be read as the API server would have it (an
// operator that doesn't exist, a bound that is no number) matches nothing.
package placement
