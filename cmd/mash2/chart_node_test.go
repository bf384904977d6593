package main

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// nodeObjects are what the chart makes of the DaemonSet on the nodes.
type nodeObjects struct {
	set   *appsv1.DaemonSet
	role  *rbacv1.Role
	kinds []string
}

func nodeObjectsOf(t *testing.T, values string) nodeObjects {
	t.Helper()
	out, err := templated(t, values)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var found nodeObjects
	for text := range strings.SplitSeq(out, "\n---\n") {
		if !strings.Contains(text, "# Source: mash2/templates/node.yaml") {
			continue
		}
		var o struct{ Kind string }
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		found.kinds = append(found.kinds, o.Kind)
		switch o.Kind {
		case "DaemonSet":
			err = yaml.UnmarshalStrict([]byte(text), &found.set)
		case "Role":
			err = yaml.UnmarshalStrict([]byte(text), &found.role)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	slices.Sort(found.kinds)
	return found
}

// checkPrivileges: no user but one of its own, no privilege, nothing that can be written.
func (n nodeObjects) checkPrivileges(t *testing.T) {
	t.Helper()
	pod := n.set.Spec.Template.Spec
	c := pod.Containers[0]
	if s := pod.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser != 65532 || s.SeccompProfile.Type != "RuntimeDefault" {
		t.Errorf("the pod's security context is %+v", s)
	}
	if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" || len(s.Capabilities.Add) > 0 || s.Privileged != nil {
		t.Errorf("the container's security context is %+v", s)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("it is in a namespace of the node's")
	}
	for _, m := range c.VolumeMounts {
		if !m.ReadOnly {
			t.Errorf("%s can be written", m.Name)
		}
	}
	if labels := n.set.Spec.Template.Labels; labels["app.kubernetes.io/name"] == "mash2" {
		t.Error("the operator's Service and policies select it")
	}
	// The command takes these arguments.
	command, rest, err := program().Root().Find(c.Args)
	if err != nil || command.Name() != "agents" {
		t.Fatalf("%v: %v", c.Args, err)
	}
	if err := command.ParseFlags(rest); err != nil {
		t.Error(err)
	}
}

// TestChartNode: the DaemonSet is there only if it is asked for, has no more rights than what it
// does needs, and never resizes pods beside the operator.
func TestChartNode(t *testing.T) {
	const predicts = "agents.node.enabled=true,models.configMap=qos,agents.node.predict={qos}"
	if got := nodeObjectsOf(t, "agents.enabled=true,models.configMap=qos"); len(got.kinds) > 0 {
		t.Errorf("without agents.node.enabled: %v", got.kinds)
	}

	t.Run("predicts only, beside the operator's agents", func(t *testing.T) {
		got := nodeObjectsOf(t, predicts+",agents.enabled=true")
		if want := []string{"DaemonSet", "NetworkPolicy", "ServiceAccount"}; !slices.Equal(got.kinds, want) {
			t.Fatalf("%v, want %v: no role at all", got.kinds, want)
		}
		got.checkPrivileges(t)
		pod := got.set.Spec.Template.Spec
		if *pod.AutomountServiceAccountToken || len(pod.Volumes) != 1 || pod.Volumes[0].ConfigMap == nil {
			t.Errorf("it has a token, or a path of the node's: %+v", pod.Volumes)
		}
		for _, a := range pod.Containers[0].Args {
			if strings.HasPrefix(a, "--selector") || strings.HasPrefix(a, "--usage") {
				t.Errorf("%s: it would resize pods", a)
			}
		}
		if p := pod.Containers[0].Ports[0]; p.ContainerPort != 8446 || p.HostPort != 0 {
			t.Errorf("%+v", p)
		}
	})

	t.Run("with an application", func(t *testing.T) {
		got := nodeObjectsOf(t, predicts+",agents.node.namespace=shop,agents.node.application.name=web,agents.node.application.selector=app=web,agents.node.hostPort=9000,agents.node.kubeletCgroup=kubelet")
		got.checkPrivileges(t)
		pod := got.set.Spec.Template.Spec
		if !*pod.AutomountServiceAccountToken || pod.Volumes[1].HostPath == nil || pod.Volumes[1].HostPath.Path != "/sys/fs/cgroup" {
			t.Errorf("%+v", pod.Volumes)
		}
		if r := got.role; r == nil || r.Namespace != "shop" || len(r.Rules) != 1 || !slices.Equal(r.Rules[0].Verbs, []string{"list"}) || !slices.Equal(r.Rules[0].Resources, []string{"pods"}) {
			t.Errorf("%+v, want to list pods in shop", r)
		}
		args := strings.Join(pod.Containers[0].Args, " ")
		if !strings.Contains(args, "--application=web=app=web") || !strings.Contains(args, "--kubelet-cgroup=kubelet") || strings.Contains(args, "--selector") {
			t.Error(args)
		}
		if p := pod.Containers[0].Ports[0]; p.HostPort != 9000 {
			t.Errorf("%+v", p)
		}
	})

	t.Run("resizes", func(t *testing.T) {
		got := nodeObjectsOf(t, "agents.node.enabled=true,agents.node.namespace=shop,agents.node.resize.enabled=true,agents.node.resize.selector=app=web,agents.node.resize.millicores=1500,agents.node.resize.memory=4Gi")
		if want := []string{"DaemonSet", "Role", "RoleBinding", "ServiceAccount"}; !slices.Equal(got.kinds, want) {
			t.Fatalf("%v, want %v", got.kinds, want)
		}
		got.checkPrivileges(t)
		if r := got.role.Rules; len(r) != 2 || !slices.Equal(r[1].Verbs, []string{"patch"}) || !slices.Equal(r[1].Resources, []string{"pods/resize"}) {
			t.Errorf("%+v", r)
		}
		args := strings.Join(got.set.Spec.Template.Spec.Containers[0].Args, " ")
		if !strings.Contains(args, "--usage=cgroup --selector=app=web --algorithm=spread --resources=1500 --floor=50 --ceiling=0 --memory=4Gi") || strings.Contains(args, "--predict") {
			t.Error(args)
		}
	})

	for want, values := range map[string]string{
		"only one loop may resize pods":              "agents.enabled=true,agents.node.enabled=true,agents.node.namespace=shop,agents.node.resize.enabled=true,agents.node.resize.selector=app=web",
		"nothing to do":                              "agents.node.enabled=true",
		"models.configMap is required":               "agents.node.enabled=true,agents.node.predict={qos}",
		"agents.node.namespace is required":          predicts + ",agents.node.application.name=web,agents.node.application.selector=a",
		"agents.node.application.selector is":        predicts + ",agents.node.namespace=shop,agents.node.application.name=web",
		"agents.node.resize.selector is required":    "agents.node.enabled=true,agents.node.namespace=shop,agents.node.resize.enabled=true",
		"/agents/node/intervalSeconds":               predicts + ",agents.node.intervalSeconds=60",
		"/agents/node/resize/algorithm":              predicts + ",agents.node.resize.algorithm=ppo",
		"/agents/node/resize/memory":                 predicts + ",agents.node.resize.memory=lots",
		"/agents/node/port":                          predicts + ",agents.node.port=80",
		"additional properties 'oddity' not allowed": predicts + ",agents.node.oddity=1",
	} {
		if out, err := templated(t, values); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v %s, want %q", values, err, out, want)
		}
	}
}
