package deployment

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"

	"github.com/askback-mcp/askback/internal/test/expect"
)

var instances = []string{"one", "two", "three"}

// readCompose loads the compose file with all its profiles, and with the variables that the README puts into .env. The
// loader checks it against the schema of the specification.
func readCompose(t *testing.T) *types.Project {
	t.Helper()
	line := regexp.MustCompile(`printf '(.*)\\n' .*> ?\.env`).FindStringSubmatch(read(t, "README.md"))
	if line == nil {
		t.Fatal("the README does not make .env")
	}
	environment := make(types.Mapping)
	for variable := range strings.SplitSeq(line[1], `\n`) {
		name, _, _ := strings.Cut(variable, "=")
		environment[name] = "1000"
	}
	dir := expect.Must(filepath.Abs(folder))(t)
	project := expect.Must(loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  dir,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, "compose.yaml")}},
		Environment: environment,
	}, func(o *loader.Options) { o.Profiles = []string{"*"} }))(t)
	return project
}

func TestCompose(t *testing.T) {
	project := readCompose(t)
	if got := slices.Sorted(maps.Keys(project.Services)); !slices.Equal(got,
		[]string{"collector", "nginx", "one", "postgres", "three", "two"}) {
		t.Fatalf("the services: %q", got)
	}
	idle := regexp.MustCompile(`keepalive_timeout (\w+);`).FindStringSubmatch(read(t, "nginx.conf"))
	images := make(map[string]bool)
	for _, name := range instances {
		s := project.Services[name]
		checkEnvironment(t, slices.Collect(maps.Keys(s.Environment)))
		delay := duration(t, *s.Environment["DRAIN_DELAY"])
		if stop := time.Duration(*s.StopGracePeriod); stop <= delay+grace+flush {
			t.Errorf("%s is killed after %v, but stopping may take %v", name, stop, delay+grace+flush)
		}
		if delay <= duration(t, idle[1]) {
			t.Errorf("nginx keeps idle connections for %s, and %s serves for %v after it turned unready", idle[1], name, delay)
		}
		keys := *s.Environment["KEYS_FILE"]
		if len(s.Volumes) != 3 || s.Volumes[0].Target != filepath.Dir(keys) || !s.Volumes[0].ReadOnly {
			t.Fatalf("%s has the keys in %s, and mounts %+v", name, keys, s.Volumes)
		}
		if receipts := *s.Environment["RECEIPT_KEYS"]; receipts != s.Volumes[0].Target+"/receipts.jwks" {
			t.Errorf("%s has the keys of receipts in %s, and mounts %+v", name, receipts, s.Volumes)
		}
		if trail, heads := *s.Environment["AUDIT_FILE"], *s.Environment["AUDIT_HEADS"]; !strings.HasPrefix(trail,
			s.Volumes[1].Target+"/"+name) || heads != s.Volumes[2].Target+"/"+name ||
			filepath.Dir(*s.Environment["AUDIT_KEY"]) != s.Volumes[0].Target {
			t.Errorf("%s has its audit in %s and the heads in %s, and mounts %+v", name, trail, heads, s.Volumes)
		}
		if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || s.User == "" {
			t.Errorf("%s may do more than serve", name)
		}
		if *s.Environment["OTEL_RESOURCE_ATTRIBUTES"] != "service.instance.id="+name {
			t.Errorf("%s calls itself %s", name, *s.Environment["OTEL_RESOURCE_ATTRIBUTES"])
		}
		if s.DependsOn["postgres"].Condition != types.ServiceConditionHealthy ||
			project.Services["postgres"].HealthCheck == nil {
			t.Errorf("%s does not wait for the database", name)
		}
		images[s.Image] = true
	}
	if len(images) != 1 {
		t.Errorf("the instances have several images: %v", images)
	}
	if build := project.Services["one"].Build; build == nil ||
		filepath.Join(build.Context, build.Dockerfile) != filepath.Join(project.WorkingDir, "Dockerfile") {
		t.Errorf("nothing builds the image: %+v", build)
	}
	// Everything that is mounted is in the folder, or is made by a command of the README.
	for name, s := range project.Services {
		for _, v := range s.Volumes {
			inside := strings.TrimPrefix(v.Source, project.WorkingDir+"/")
			if v.Type != types.VolumeTypeBind || strings.Contains(read(t, "README.md"), "mkdir -p keys audit heads\n") &&
				slices.Contains([]string{"keys", "audit", "heads"}, inside) ||
				strings.HasPrefix(inside, "keys/") && strings.Contains(read(t, "README.md"), ">"+inside) {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, command := range []string{"keys new keys/askback.keys", "keys new --receipts keys/receipts.jwks"} {
		if !strings.Contains(read(t, "README.md"), "   askback "+command+"\n") {
			t.Errorf("the README has no %q", command)
		}
	}
}

// The configuration in docs/deploy is the fleet's, which judge/real runs, with other addresses.
func TestNginxConfigurationIsTheRecipe(t *testing.T) {
	recipe := expect.Must(os.ReadFile(filepath.Join(folder, "../../docs/deploy/nginx.conf")))(t)
	_, want, _ := strings.Cut(string(recipe), "\n\n")
	project := readCompose(t)
	for i, name := range instances {
		s := project.Services[name]
		port := (*s.Environment["ADDR"])[1:]
		want = strings.Replace(want, "127.0.0.1:808"+string(rune('1'+i)), s.Networks["fleet"].Ipv4Address+":"+port, 1)
	}
	published := project.Services["nginx"].Ports[0]
	want = strings.Replace(want, "listen 127.0.0.1:8080;", fmt.Sprintf("listen %d;", published.Target), 1)
	if _, got, _ := strings.Cut(read(t, "nginx.conf"), "\n\n"); got != want {
		t.Errorf("nginx.conf has\n%s\nand docs/deploy/nginx.conf, with the addresses of compose.yaml,\n%s", got, want)
	}
	expect.Equal(t, "the server, which tells no callers apart, is reachable at", published.HostIP, "127.0.0.1")
}

// The collector of the optional profile listens where the README points the instances to.
func TestCollector(t *testing.T) {
	var c struct {
		Receivers struct {
			OTLP struct {
				Protocols struct{ HTTP struct{ Endpoint string } }
			}
		}
		Exporters map[string]any
		Service   struct {
			Pipelines map[string]struct{ Receivers, Exporters []string }
		}
	}
	expect.Check(t, yaml.UnmarshalStrict([]byte(read(t, "collector.yaml")), &c))
	_, port, _ := strings.Cut(c.Receivers.OTLP.Protocols.HTTP.Endpoint, ":")
	if want := "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:" + port; port == "" ||
		!strings.Contains(read(t, "README.md"), want) {
		t.Errorf("the README does not have %s", want)
	}
	for _, signal := range []string{"traces", "metrics"} {
		p := c.Service.Pipelines[signal]
		if !slices.Equal(p.Receivers, []string{"otlp"}) || len(p.Exporters) == 0 || c.Exporters == nil {
			t.Errorf("%s: %+v", signal, p)
		}
	}
	if profiles := readCompose(t).Services["collector"].Profiles; len(profiles) != 1 ||
		!strings.Contains(read(t, "README.md"), "--profile "+profiles[0]) {
		t.Errorf("the README does not start the profile %q", profiles)
	}
}
