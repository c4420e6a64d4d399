package config_test

import (
	"reflect"
	"strings"
	"testing"

	"shardway/config"
	"shardway/internal/headerrules"
)

func TestHealthCheckIsRead(t *testing.T) {
	const text = "health: /healthz?full=1\nhealth_method: POST\nhealth_host: app.example:8443\nhealth_header: ['Accept: text/html, */*', 'X-Forwarded-Proto:https']\nhealth_status: [200, 202-204, 3xx]\nhealth_body: all is well, thanks\n"
	want := config.HealthCheck{
		Path: "/healthz?full=1", Method: "POST", Host: "app.example:8443", Body: "all is well, thanks",
		Headers: []headerrules.Field{{Name: "Accept", Value: "text/html, */*"}, {Name: "X-Forwarded-Proto", Value: "https"}},
		Status:  []config.StatusRange{{First: 200, Last: 200}, {First: 202, Last: 204}, {First: 300, Last: 399}},
	}
	for place, load := range map[string]func() (config.Config, error){
		"YAML": func() (config.Config, error) { return config.Load([]string{"--config=f.yaml"}, nil, yamlFile(text)) },
		"flags": func() (config.Config, error) {
			return config.Load([]string{
				"--health", "/healthz?full=1", "--health-method", "POST", "--health-host", "app.example:8443", "--health-header", "Accept: text/html, */*",
				"--health-header", "X-Forwarded-Proto:https", "--health-status", "200,202-204", "--health-status=3xx", "--health-body", "all is well, thanks",
			}, nil, files(nil))
		},
		"variables": func() (config.Config, error) {
			return config.Load(nil, []string{
				"SHARDWAY_HEALTH=/healthz?full=1", "SHARDWAY_HEALTH_METHOD=POST", "SHARDWAY_HEALTH_HOST=app.example:8443", "SHARDWAY_HEALTH_HEADER=Accept: text/html, */*\nX-Forwarded-Proto:https",
				"SHARDWAY_HEALTH_STATUS=200,202-204,3xx", "SHARDWAY_HEALTH_BODY=all is well, thanks",
			}, files(nil))
		},
	} {
		c, err := load()
		if err != nil {
			t.Errorf("%s: %v", place, err)
			continue
		}
		if got := c.HealthCheck(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", place, got, want)
		}
	}
	c, err := config.Load([]string{"--health=/h"}, nil, files(nil))
	if err != nil {
		t.Fatal(err)
	}
	byDefault := config.HealthCheck{Path: "/h", Method: "GET", Status: []config.StatusRange{{First: 200, Last: 399}}}
	if got := c.HealthCheck(); !reflect.DeepEqual(got, byDefault) {
		t.Errorf("default: %+v, want %+v", got, byDefault)
	}
}

func TestStatusRangesIncludeBothEnds(t *testing.T) {
	c, err := config.Load([]string{"--health=/", "--health-status=200-299,404,5xx"}, nil, files(nil))
	if err != nil {
		t.Fatal(err)
	}
	check := c.HealthCheck()
	for status, want := range map[int]bool{199: false, 200: true, 299: true, 300: false, 403: false, 404: true, 405: false, 499: false, 500: true, 599: true, 600: false} {
		if check.AcceptsStatus(status) != want {
			t.Errorf("%d is accepted: %v", status, !want)
		}
	}
}

// Each mistake is reported with the key, the value and a remedy.
func TestInvalidHealthCheckHasRemedy(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--health-method=G T"}, `health-method = "G T" (flag): not a method (RFC 9110, section 9); use GET, HEAD, POST or OPTIONS`},
		{[]string{"--health-method=get"}, `health-method = "get" (flag): methods are case-sensitive; write GET`},
		{[]string{"--health-method=CONNECT"}, `health-method = "CONNECT" (flag): it requests a tunnel; use `},
		{[]string{"--health-host=http://a"}, `health-host = "http://a" (flag): not the value of a Host header; write a name or an address, like `},
		{[]string{"--health-host=a/b"}, `health-host = "a/b" (flag): not the value`},
		{[]string{"--health-host=a:0"}, `health-host = "a:0" (flag): not the value`},
		{[]string{"--health-host=a:x"}, `health-host = "a:x" (flag): not the value`},
		{[]string{"--health-host=::1"}, `health-host = "::1" (flag): not the value`},
		{[]string{"--health-host=[a]:1"}, `health-host = "[a]:1" (flag): not the value`},
		{[]string{"--health-host=[fe80::1%eth0]"}, `health-host = "[fe80::1%eth0]" (flag): not the value`},
		{[]string{"--health-host=a\r\nX: y"}, `health-host = "a\r\nX: y" (flag): not the value`},
		{[]string{"--health-header=X"}, `health-header = "X" (flag): "X": not a header field; write NAME: VALUE, like X-Forwarded-Proto: https`},
		{[]string{"--health-header=X Y: z"}, `"X Y: z": not a header field`},
		{[]string{"--health-header=X : z"}, `"X : z": not a header field`},
		{[]string{"--health-header=: z"}, `": z": not a header field`},
		{[]string{"--health-header=host: a"}, `"host: a": the Host header has a setting of its own; use health-host`},
		{[]string{"--health-header=Shardway_Key: a"}, `"Shardway_Key: a": the app would take the check for a request of a client; remove it`},
		{[]string{"--health-header=Content-Length: 1"}, `"Content-Length: 1": HTTP itself needs the field Content-Length; remove it`},
		{[]string{"--health-header=transfer_encoding: chunked"}, `HTTP itself needs the field transfer_encoding`},
		{[]string{"--health-header=X: a\rb"}, `"X: a\rb": not the value of a header field (RFC 9110, section 5.5); use visible ASCII, spaces and tabs`},
		{[]string{"--health-header=X: a\nY"}, `"Y": not a header field`},
		{[]string{"--health-header=A: " + long, "--health-header=B: " + long}, `the fields have 10006 bytes, more than 8192; use fewer or shorter fields`},
		{[]string{"--health-status=ok"}, `health-status = "ok" (flag): "ok": not a status code or a range of them; write codes from 200 to 599, like 200, 200-399 or 2xx`},
		{[]string{"--health-status=199"}, `"199": not a status code`},
		{[]string{"--health-status=600"}, `"600": not a status code`},
		{[]string{"--health-status=1xx"}, `"1xx": not a status code`},
		{[]string{"--health-status=2xx-3xx"}, `"2xx-3xx": not a status code`},
		{[]string{"--health-status=200-"}, `"200-": not a status code`},
		{[]string{"--health-status=+20"}, `"+20": not a status code`},
		{[]string{"--health-status=399-200"}, `"399-200": the range ends before it begins; write 200-399`},
		{[]string{"--health-status="}, `health-status (flag): no status is accepted; set at least one, such as 200`},
		{[]string{"--health-body=" + long}, `it has 5000 bytes; use at most 1024`},
		{[]string{"--health-body=ok", "--health-method=HEAD"}, `health-body = "ok" (flag): a response to HEAD has no body; set health-method to GET, or remove it`},
	} {
		_, err := config.Load(append([]string{"--health=/h"}, tt.args...), nil, files(nil))
		if err == nil || !strings.Contains(err.Error(), tt.want) || len(problems(t, err)) != 1 {
			t.Errorf("%q: %v, want %q", tt.args, err, tt.want)
		}
	}
	for _, args := range []string{"--health-host=app", "--health-host=10.0.0.1:80", "--health-host=[::1]", "--health-host=[::1]:80", "--health-method=PURGE", "--health-header=X:", "--health-header=X-Forwarded-Host: a", "--health-header=User-Agent: probe"} {
		if _, err := config.Load([]string{"--health=/h", args}, nil, files(nil)); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// Settings of the request have no effect if the check sends no request.
func TestRequestOfHealthCheckNeedsPath(t *testing.T) {
	for _, flag := range []string{"health-method=POST", "health-host=a", "health-header=X: y", "health-status=200", "health-body=ok"} {
		name, _, _ := strings.Cut(flag, "=")
		for _, tt := range []struct {
			args []string
			want string
		}{
			{nil, ": without health, the check only opens a connection; set health, such as /healthz, or remove it"},
			{[]string{"--exec=app {addr}", "--upstream="}, ": with exec there is no single app to check; remove it; use exec-ready to find out when a process is ready"},
		} {
			_, err := config.Load(append(tt.args, "--"+flag), nil, files(nil))
			if err == nil || !strings.Contains(err.Error(), name+" = ") || !strings.Contains(err.Error(), tt.want) || len(problems(t, err)) != 1 {
				t.Errorf("%s %v: %v, want %q", flag, tt.args, err, tt.want)
			}
		}
		if _, err := config.Compose(config.Program{Embedded: true, Args: []string{"--" + flag}}); err == nil || !strings.Contains(err.Error(), "the app is in this process") {
			t.Errorf("%s of an app in this process: %v", flag, err)
		}
	}
}

// A YAML value in a wrong form is reported with a form that YAML accepts.
func TestRemedyForHealthHeaderIsYAML(t *testing.T) {
	_, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile("health: /\nhealth_header: {X: y}\n"))
	if err == nil || !strings.Contains(err.Error(), "write health_header: ['NAME: VALUE']") {
		t.Error(err)
	}
}

// Accepted texts make a request of one header section, and an accepted range is within the bounds.
func FuzzHealthCheck(f *testing.F) {
	f.Add("GET", "app:80", "X-A: b", "200-399")
	f.Add("POST", "[::1]:1", "Accept: a, b", "2xx")
	f.Add("get", "a\r\nb", "A: b\r\nC: d", "2xx-3xx")
	f.Fuzz(func(t *testing.T, method, host, header, status string) {
		c, err := config.Load([]string{"--health=/h", "--health-method=" + method, "--health-host=" + host, "--health-header=" + header, "--health-status=" + status}, nil, files(nil))
		if err != nil {
			for _, p := range problems(t, err) {
				if p.Remedy == "" || p.Message == "" {
					t.Errorf("%q: %+v", p.Value, p)
				}
			}
			return
		}
		check := c.HealthCheck()
		for _, field := range check.Headers {
			if field.Name == "" || strings.ContainsAny(field.Name+field.Value, "\r\n\x00") || strings.ContainsAny(field.Name, ": ") {
				t.Errorf("field %q: %q", field.Name, field.Value)
			}
		}
		if strings.ContainsAny(check.Method+check.Host, "\r\n\x00 /") {
			t.Errorf("method %q, host %q", check.Method, check.Host)
		}
		for _, accepted := range check.Status {
			if accepted.First < 200 || accepted.Last > 599 || accepted.First > accepted.Last {
				t.Errorf("%q is %+v", status, accepted)
			}
		}
	})
}
