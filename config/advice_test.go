package config_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/config"
)

func TestAdviceNamesKeysThatProbablyDoNotWork(t *testing.T) {
	for _, tt := range []struct {
		args string
		want []string // a part of each advice, in order
	}{
		{"", nil},
		{"--on-missing-key cookie", nil},
		{"--on-missing-key hash-path --key path:1,query:user,ip,host,jwt:sub", nil},
		{"--key cookie:sid,header:X-Session,wrap:cookie:PHPSESSID", []string{"add mint as the last source"}},
		{"--key wrap:cookie:PHPSESSID,mint", nil},
		{"--key wrap:cookie:PHPSESSID,query:user", nil},
		{"--key cookie:PHPSESSID", []string{"use wrap:cookie:PHPSESSID"}},
		{"--key cookie:JSESSIONID,cookie:connect.sid,header:mcp-session-id", []string{"a Java servlet container creates", "use wrap:cookie:connect.sid", "use wrap:header:mcp-session-id"}},
		{"--key wrap:cookie:PHPSESSID --on-missing-key local --upstream http://127.0.0.1:9", nil},
		{"--key cookie:app --on-missing-key hash-path", []string{"use wrap:cookie:app; or remove"}},
		{"--key cookie:PHPSESSID --on-missing-key local --upstream http://127.0.0.1:9", []string{"remove cookie:PHPSESSID and set on-missing-key to cookie"}},
		{"--key header:Mcp-Session-Id,cookie:sid --on-missing-key hash-path", []string{"use a key that the client has", "remove cookie:sid"}},
		{"--key cookie:sid,none", []string{"(the last source is none)"}},
		{"--key cookie:sid,mint:POST,mint:PUT --on-missing-key local --upstream http://127.0.0.1:9", nil},
		{"--key cookie:sid,mint --on-missing-key cookie", nil},
		{"--key header:Mcp-Session-Id,mint:POST --on-missing-key hash-path", nil},
		{"--key cookie:JSESSIONID --on-missing-key cookie", []string{"on-missing-key is cookie"}},
		{"--key jwt:tenant.id", []string{`the claim named "tenant.id", not a member of the claim "tenant"`}},
		{"--key jwt:https://acme.com/tenant,jwt:urn:acme.com:tenant", nil},
		{"--key jwt:/tenant.id/x,jwt:/tenant/id@cookie:token,jwt:/aud/0", nil},
		{"--key jwt:/realm_access/roles,path:1+jwt:aud@query:t", []string{"like jwt:/tenant/id", "array or an object"}},
		{"--key jwt:tenant.id", []string{"write jwt:/tenant/id"}},
		{"--key jwt:aud,jwt:realm_access", []string{"array or an object", "array or an object"}},
	} {
		c, err := config.Load(strings.Fields(tt.args), nil, files(nil))
		if err != nil {
			t.Fatalf("%s: %v", tt.args, err)
		}
		advice := c.Advice()
		if len(advice) != len(tt.want) {
			t.Errorf("%s: advice %v, want %d", tt.args, advice, len(tt.want))
			continue
		}
		for i, want := range tt.want {
			if line := advice[i].String(); !strings.Contains(line, want) || advice[i].Origin != "flag" || advice[i].Remedy == "" {
				t.Errorf("%s: %+v, want %q", tt.args, advice[i], want)
			}
		}
	}
}

func TestAdviceNamesTheRoute(t *testing.T) {
	c, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile("on_missing_key: hash-path\nroutes:\n  /mcp: [header:Mcp-Session-Id]\n  /sse: [header:Mcp-Session-Id, mint]\n"))
	if err != nil {
		t.Fatal(err)
	}
	advice := c.Advice()
	if len(advice) != 1 || !strings.Contains(advice[0].Remedy, "add mint") || advice[0].Key != "routes /mcp" || advice[0].Value != "header:Mcp-Session-Id" || advice[0].Origin != "f.yaml:2" {
		t.Errorf("%+v", advice)
	}
}

func TestAdviceNamesPatternsThatNeverMatch(t *testing.T) {
	for pattern, matches := range map[string]bool{
		"/api/rooms/{key}": true, "/{any}/rooms/{key}": true, "/{key*}/x": true, "/{key}/*": true, "/%61pi/r%6foms/{key}/*": true, "/api/r{key}/*": true,
		"/rooms/{key}": false, "/api/{key}": true, "/api/room/{key}": false, "/{key}": false, "/API/rooms/{key}": false, "/api/x{key}/*": false,
	} {
		c, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile("routes:\n  /api/rooms: ['host+path:"+pattern+"']\n"))
		if err != nil {
			t.Fatal(err)
		}
		if advice := c.Advice(); (len(advice) == 0) != matches || !matches && !strings.Contains(advice[0].Remedy, "begin the pattern with /api/rooms") {
			t.Errorf("%s: %v", pattern, advice)
		}
	}
}

func TestUpstreamMayBeRepeated(t *testing.T) {
	want := []string{"http://127.0.0.1:1", "unix:/run/app.sock", "http://127.0.0.1:2"}
	for name, load := range map[string]func() (config.Config, error){
		"flags": func() (config.Config, error) {
			return config.Load([]string{"--upstream", want[0], "--upstream=" + want[1], "--upstream", want[2]}, nil, files(nil))
		},
		"environment": func() (config.Config, error) {
			return config.Load(nil, []string{"SHARDWAY_UPSTREAM=" + strings.Join(want, ",")}, files(nil))
		},
		"file": func() (config.Config, error) {
			return config.Load([]string{"--config=f.yaml"}, nil, yamlFile("upstreams: ["+strings.Join(want, ", ")+"]\n"))
		},
		"file, singular": func() (config.Config, error) {
			return config.Load([]string{"--config=f.yaml"}, nil, yamlFile("upstream:\n  - "+strings.Join(want, "\n  - ")+"\n"))
		},
	} {
		c, err := load()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := c.Upstreams(); !slices.Equal(got, want) || c.Upstream != want[0] {
			t.Errorf("%s: %q", name, got)
		}
	}
	many := []string{"--hooks=/hooks"}
	for i := range 33 {
		many = append(many, fmt.Sprintf("--upstream=http://127.0.0.1:%d", i+1))
	}
	for _, tt := range []struct {
		args []string
		yaml string
		want string
	}{
		{[]string{"--upstream=http://127.0.0.1:1", "--upstream=http://127.0.0.1:1/"}, "", "same address"},
		{[]string{"--upstream=http://127.0.0.1:1", "--upstream=ftp://x"}, "", `"ftp://x"`},
		{many, "", "33 app instances"},
		{[]string{"--upstream=http://127.0.0.1:1", "--upstream=http://127.0.0.1:2", "--hooks=http://127.0.0.1:3"}, "", "own hooks"},
		{[]string{"--upstream=http://127.0.0.1:1", "--upstream=http://127.0.0.1:2", "--exec=app {addr}"}, "", "names an app that runs already"},
		{[]string{"--exec=app {addr}", "--exec=other {addr}"}, "", "twice"},
		{[]string{"--upstream=http://127.0.0.1:1", "--upstream=http://127.0.0.1:8085", "--listen=127.0.0.1:8085"}, "", "listens there itself"},
		{nil, "upstream: http://127.0.0.1:1\nupstreams: [http://127.0.0.1:2]\n", "another name of upstream"},
	} {
		args, file := tt.args, files(nil)
		if tt.yaml != "" {
			args, file = []string{"--config=f.yaml"}, yamlFile(tt.yaml)
		}
		_, err := config.Load(args, nil, file)
		all := problems(t, err)
		if len(all) != 1 || !strings.Contains(all[0].Message, tt.want) || all[0].Remedy == "" {
			t.Errorf("%v %s: %v, want a problem with %q", args, tt.yaml, err, tt.want)
		}
	}
	if _, err := config.Load([]string{"--upstream=http://127.0.0.1:1"}, []string{"SHARDWAY_UPSTREAM=http://127.0.0.1:2"}, files(nil)); err != nil {
		t.Errorf("a flag that replaces the environment: %v", err)
	}
	if c, err := config.Load([]string{"--upstream=http://127.0.0.1:1", "--upstream="}, nil, files(nil)); err != nil || !c.Gateway() {
		t.Errorf("an empty value that makes the node a gateway: %v", err)
	}
}

// The parser's time grows with size times nesting: 60 kB of brackets took 10 s.
func TestDeeplyNestedFileIsRefusedAtOnce(t *testing.T) {
	for name, text := range map[string]string{
		"brackets":        "node: a\nkey: " + strings.Repeat("[", 60_000),
		"closed brackets": "node: a\nkey: " + strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000),
		"braces":          "node: a\nkey: " + strings.Repeat("{a: ", 20_000),
		"dashes":          "node: a\nkey:\n  " + strings.Repeat("- ", 30_000),
		"question marks":  "node: a\nkey:\n  " + strings.Repeat("? ", 30_000),
		"lines":           "node: a\nkey:\n" + strings.Repeat("  - [[[[\n", 6_000),
		"size":            strings.Repeat("# comment\n", 30_000),
	} {
		began := time.Now()
		_, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile(text))
		all := problems(t, err)
		if len(all) != 1 || !strings.HasPrefix(all[0].Origin, "f.yaml:") || all[0].Remedy == "" {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if wrong := all[0].Message; !strings.Contains(wrong, "more than 16 levels") && !strings.Contains(wrong, "300000 bytes, more than 256KiB") {
			t.Errorf("%s: %s", name, wrong)
		}
		t.Logf("%s: %v", name, time.Since(began))
	}
	_, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile("routes: {\"/a\": [ip, host], \"/b\": [\"header:A[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"]}\nkey:\n- ip\n- host\n"))
	if err == nil || strings.Contains(err.Error(), "nested") {
		t.Errorf("brackets within quotes count as nesting: %v", err)
	}
}
