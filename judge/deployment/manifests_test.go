package deployment

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// manifests are the objects of the folder kubernetes, by their names.
type manifests struct {
	deployments  map[string]*apps.Deployment
	statefulSets map[string]*apps.StatefulSet
	services     map[string]*core.Service
	budgets      map[string]*policy.PodDisruptionBudget
	ingresses    map[string]*networking.Ingress
}

// decode takes a document into the type that the API server has for it, and as strictly: unknown, misspelt and repeated
// fields are errors.
func decode[T any, P interface {
	*T
	meta.Object
}](t *testing.T, into map[string]P, file, document string) {
	t.Helper()
	object := P(new(T))
	data, err := yaml.YAMLToJSONStrict([]byte(document))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if strict, err := json.UnmarshalStrict(data, object); err != nil || len(strict) > 0 {
		t.Fatalf("%s: %v %v", file, err, strict)
	}
	if object.GetName() == "" || into[object.GetName()] != nil {
		t.Fatalf("%s: the name %q is empty, or taken", file, object.GetName())
	}
	into[object.GetName()] = object
}

func readManifests(t *testing.T) *manifests {
	t.Helper()
	m := &manifests{
		make(map[string]*apps.Deployment), make(map[string]*apps.StatefulSet), make(map[string]*core.Service),
		make(map[string]*policy.PodDisruptionBudget), make(map[string]*networking.Ingress),
	}
	files, err := filepath.Glob(filepath.Join(folder, "kubernetes", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal("no manifests", err)
	}
	for _, file := range files {
		text := expect.Must(os.ReadFile(file))(t)
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var kind meta.TypeMeta
			if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			switch kind {
			case meta.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}:
				decode(t, m.deployments, file, document)
			case meta.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}:
				decode(t, m.statefulSets, file, document)
			case meta.TypeMeta{APIVersion: "v1", Kind: "Service"}:
				decode(t, m.services, file, document)
			case meta.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}:
				decode(t, m.budgets, file, document)
			case meta.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"}:
				decode(t, m.ingresses, file, document)
			default:
				t.Fatalf("%s: an object of %+v: add it to this test", file, kind)
			}
		}
	}
	return m
}

// server returns the Pod of an instance, and its only container.
func (m *manifests) server(t *testing.T) (*core.PodSpec, *core.Container) {
	t.Helper()
	d := m.deployments["orders"]
	if d == nil || len(d.Spec.Template.Spec.Containers) != 1 {
		t.Fatal("there is no Deployment orders with one container")
	}
	return &d.Spec.Template.Spec, &d.Spec.Template.Spec.Containers[0]
}

// value returns the value of a variable that a container gets as it is.
func value(c *core.Container, name string) string {
	for _, v := range c.Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// pods returns the templates of all Pods.
func (m *manifests) pods() map[string]*core.PodTemplateSpec {
	all := make(map[string]*core.PodTemplateSpec)
	for name, d := range m.deployments {
		all[name] = &d.Spec.Template
	}
	for name, s := range m.statefulSets {
		all[name] = &s.Spec.Template
	}
	return all
}

func selects(selector, labels map[string]string) bool {
	for name, want := range selector {
		if labels[name] != want {
			return false
		}
	}
	return len(selector) > 0
}

func hasPort(pod *core.PodTemplateSpec, port intstr.IntOrString) bool {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal {
				return true
			}
		}
	}
	return false
}

// What one object says of another is so.
func TestManifestsAgree(t *testing.T) {
	m := readManifests(t)
	for name, d := range m.deployments {
		if !selects(d.Spec.Selector.MatchLabels, d.Spec.Template.Labels) {
			t.Errorf("Deployment %s does not select its own Pods", name)
		}
	}
	for name, s := range m.statefulSets {
		if !selects(s.Spec.Selector.MatchLabels, s.Spec.Template.Labels) {
			t.Errorf("StatefulSet %s does not select its own Pods", name)
		}
		if m.services[s.Spec.ServiceName] == nil {
			t.Errorf("StatefulSet %s: there is no Service %s", name, s.Spec.ServiceName)
		}
	}
	for name, s := range m.services {
		found := false
		for _, pod := range m.pods() {
			if !selects(s.Spec.Selector, pod.Labels) {
				continue
			}
			found = true
			for _, port := range s.Spec.Ports {
				if !hasPort(pod, port.TargetPort) {
					t.Errorf("Service %s: its Pods have no port %s", name, port.TargetPort.String())
				}
			}
		}
		if !found {
			t.Errorf("Service %s selects no Pods", name)
		}
	}
	for name, b := range m.budgets {
		if !selects(b.Spec.Selector.MatchLabels, m.deployments["orders"].Spec.Template.Labels) {
			t.Errorf("PodDisruptionBudget %s selects no instances", name)
		}
		if b.Spec.MaxUnavailable == nil || b.Spec.MaxUnavailable.IntValue() >= int(*m.deployments["orders"].Spec.Replicas) {
			t.Errorf("PodDisruptionBudget %s lets all instances be taken away", name)
		}
	}
	given := secrets(t)
	for name, i := range m.ingresses {
		var hosts []string
		for _, tls := range i.Spec.TLS {
			hosts = append(hosts, tls.Hosts...)
			if !slices.Contains(given, tls.SecretName+"/tls.crt") {
				t.Errorf("Ingress %s: the README makes no Secret %s", name, tls.SecretName)
			}
		}
		for _, rule := range i.Spec.Rules {
			if !slices.Contains(hosts, rule.Host) {
				t.Errorf("Ingress %s: %s has no certificate", name, rule.Host)
			}
			for _, p := range rule.HTTP.Paths {
				service := m.services[p.Backend.Service.Name]
				if service == nil || !slices.ContainsFunc(service.Spec.Ports,
					func(port core.ServicePort) bool { return port.Name == p.Backend.Service.Port.Name }) {
					t.Errorf("Ingress %s: there is no Service %s with the port %s", name, p.Backend.Service.Name,
						p.Backend.Service.Port.Name)
				}
				// The inbox is for those whom the proxy in front of it has signed in.
				signedIn := i.Annotations["nginx.ingress.kubernetes.io/auth-url"] != "" && strings.Contains(
					i.Annotations["nginx.ingress.kubernetes.io/auth-response-headers"], "X-Auth-Request-User, X-Auth-Request-Groups")
				if (p.Path != "/mcp" || *p.PathType != networking.PathTypeExact) && (p.Path != "/inbox" || !signedIn) {
					t.Errorf("Ingress %s: more than /mcp and the inbox is reachable: %s", name, p.Path)
				}
			}
		}
	}
	for name, pod := range m.pods() {
		for _, c := range pod.Spec.Containers {
			for _, v := range c.Env {
				if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
					if ref := v.ValueFrom.SecretKeyRef; !slices.Contains(given, ref.Name+"/"+ref.Key) {
						t.Errorf("%s: %s: the README makes no Secret %s with %s, but %q", name, v.Name, ref.Name, ref.Key, given)
					}
				}
			}
			for _, p := range []*core.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
				if p != nil && p.HTTPGet != nil && !hasPort(pod, p.HTTPGet.Port) {
					t.Errorf("%s: a probe of the port %s, which it does not have", name, p.HTTPGet.Port.String())
				}
			}
		}
	}
	if len(m.pods()) != 2 || len(m.services) != 2 || len(m.budgets) != 1 || len(m.ingresses) != 2 {
		t.Errorf("an object is missing: %+v", m)
	}
}

// The Pod of an instance fits the program: what it reads, where its keys are, how long it takes to stop.
func TestPodFitsTheProgram(t *testing.T) {
	m := readManifests(t)
	pod, c := m.server(t)
	var names []string
	used := ""
	for _, v := range c.Env {
		for _, reference := range regexp.MustCompile(`\$\((\w+)\)`).FindAllStringSubmatch(v.Value, -1) {
			if !slices.Contains(names, reference[1]) {
				t.Errorf("%s refers to %s, which is not set before it", v.Name, reference[1])
			}
			used += reference[0]
		}
		names = append(names, v.Name)
	}
	checkEnvironment(t, slices.DeleteFunc(names, func(name string) bool { return strings.Contains(used, "("+name+")") }))
	if addr := value(c, "ADDR"); len(c.Ports) != 1 ||
		!strings.HasSuffix(addr, ":"+strconv.Itoa(int(c.Ports[0].ContainerPort))) {
		t.Errorf("the container listens on %s, and says %v", addr, c.Ports)
	}

	for _, name := range []string{"KEYS_FILE", "RECEIPT_KEYS"} {
		keys := value(c, name)
		i := slices.IndexFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return m.MountPath == path.Dir(keys) })
		if i < 0 || c.VolumeMounts[i].SubPath != "" || !c.VolumeMounts[i].ReadOnly {
			t.Fatalf("the folder of %s is not mounted, or not so that it changes in place", keys)
		}
		for _, v := range pod.Volumes {
			if v.Name != c.VolumeMounts[i].Name {
				continue
			}
			if !slices.Contains(secrets(t), v.Secret.SecretName+"/"+path.Base(keys)) {
				t.Errorf("the README makes no Secret %s with %s", v.Secret.SecretName, path.Base(keys))
			}
			if *v.Secret.DefaultMode != 0o440 || *pod.SecurityContext.FSGroup != *pod.SecurityContext.RunAsGroup {
				t.Errorf("%s has the mode %o: the program could not read it, or others could", keys, *v.Secret.DefaultMode)
			}
		}
	}

	delay := duration(t, value(c, "DRAIN_DELAY"))
	if total := delay + grace + flush; time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second <= total {
		t.Errorf("the kubelet kills after %d seconds, but stopping may take %v", *pod.TerminationGracePeriodSeconds, total)
	}
	ready := c.ReadinessProbe
	notices := time.Duration(ready.PeriodSeconds*ready.FailureThreshold+ready.TimeoutSeconds) * time.Second
	if delay <= notices+time.Second {
		t.Errorf("the kubelet notices within %v that an instance stops, which serves for %v then", notices, delay)
	}

	limit := c.Resources.Limits[core.ResourceMemory]
	soft, err := resource.ParseQuantity(strings.TrimSuffix(value(c, "GOMEMLIMIT"), "B"))
	if err != nil || soft.Cmp(limit) >= 0 || soft.Value() < limit.Value()*8/10 {
		t.Errorf("GOMEMLIMIT %s beside a limit of %s (%v)", value(c, "GOMEMLIMIT"), limit.String(), err)
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() {
		t.Error("the container requests no processor or no memory")
	}
}

// An instance is replaced before it stops, and may do nothing but serve.
func TestPodIsRestricted(t *testing.T) {
	m := readManifests(t)
	pod, c := m.server(t)
	d := m.deployments["orders"].Spec
	if r := d.Strategy.RollingUpdate; *d.Replicas < 2 || r == nil || r.MaxUnavailable.IntValue() != 0 ||
		r.MaxSurge.IntValue() < 1 {
		t.Errorf("a rolling update takes instances away before there are others: %+v", d.Strategy)
	}
	user, group := imageUser(t)
	for name, p := range m.pods() {
		s := p.Spec.SecurityContext
		if s == nil || !*s.RunAsNonRoot || *s.RunAsUser == 0 ||
			s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault || *p.Spec.AutomountServiceAccountToken {
			t.Errorf("%s may do more than the restricted standard for Pods allows", name)
		}
		for _, c := range p.Spec.Containers {
			if s := c.SecurityContext; s == nil || *s.AllowPrivilegeEscalation ||
				!slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
				t.Errorf("%s: %s has capabilities, or may get some", name, c.Name)
			}
		}
	}
	if !*c.SecurityContext.ReadOnlyRootFilesystem {
		t.Error("the program could write into its image")
	}
	if *pod.SecurityContext.RunAsUser != user || *pod.SecurityContext.RunAsGroup != group {
		t.Errorf("the Pod runs as %d:%d, its image as %d:%d", *pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup,
			user, group)
	}
}
