package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/internal/problem"
)

const (
	openAPIFile = "../docs/openapi.yaml"
	made        = "    # What follows is made of the program: go test ./admin -run OpenAPI -update\n"
)

// document contains the fields of docs/openapi.yaml that the tests use.
type document struct {
	Paths      map[string]map[string]operation
	Components struct {
		Parameters map[string]parameter
		Responses  map[string]response
		Schemas    map[string]schema
	}
}

type operation struct {
	Parameters []parameter
	Responses  map[string]response
}

type parameter struct {
	Ref      string `yaml:"$ref"`
	Name, In string
	Required bool
}

type response struct {
	Ref     string `yaml:"$ref"`
	Content map[string]struct{ Schema schema }
}

type schema struct {
	Ref        string `yaml:"$ref"`
	Properties map[string]any
}

// within resolves a reference. If it is not one, it returns the zero value and false.
func within[T any](all map[string]T, kind, ref string) (T, bool) {
	name, ok := strings.CutPrefix(ref, "#/components/"+kind+"/")
	found, known := all[name]
	return found, ok && known
}

func (d *document) query(o operation) (names, required []string, err error) {
	for _, p := range o.Parameters {
		if p.Ref != "" {
			var ok bool
			if p, ok = within(d.Components.Parameters, "parameters", p.Ref); !ok {
				return nil, nil, fmt.Errorf("no parameter %q", p.Ref)
			}
		}
		if p.In != "query" {
			continue
		}
		names = append(names, p.Name)
		if p.Required {
			required = append(required, p.Name)
		}
	}
	return names, required, nil
}

// types returns the media types of a 200 response.
func (d *document) types(o operation) []string {
	r := o.Responses["200"]
	if r.Ref != "" {
		r, _ = within(d.Components.Responses, "responses", r.Ref)
	}
	var out []string
	for t := range r.Content {
		out = append(out, t)
	}
	return out
}

func openAPI(t *testing.T) (*document, string) {
	t.Helper()
	b, err := os.ReadFile(openAPIFile)
	if err != nil {
		t.Fatal(err)
	}
	d := &document{}
	if err := yaml.Unmarshal(b, d); err != nil {
		t.Fatal(err)
	}
	return d, string(b)
}

// capable is a cluster that supports all operations of an admin port.
type capable struct {
	*fake
	*upgradable
	*timingCluster
	*planning
	*draining
	owning
	*locking
}

func (capable) Rotate(context.Context, string) (api.Rotation, error) {
	return api.Rotation{Secret: "5e", Nodes: []string{"a"}}, nil
}

func newCapable() http.Handler {
	f := newFake()
	f.commit(18)
	return admin.New(admin.Options{
		API: apitest.SetOf(capable{f, &upgradable{fake: f}, &timingCluster{fake: f}, &planning{fake: f}, &draining{fake: f, left: api.DrainState{Node: "n3"}}, owning{f}, &locking{}}),
		Log: zerolog.Nop(), Metrics: prometheus.NewRegistry(), Events: ring("n1"),
	}).Handler()
}

// The document contains every path of the port and no other.
func TestOpenAPIHasThePaths(t *testing.T) {
	code, err := os.ReadFile("routes.go")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?:get|post|mux\.Handle)\("(/[^"]+)"`).FindAllStringSubmatch(string(code), -1) {
		want[m[1]] = true
	}
	for v := api.Remove; v <= api.Refuse; v++ {
		want["/v1/"+v.String()] = true
	}
	for _, other := range []string{"/", "/v1/", "/{$}"} {
		delete(want, other)
	}
	if len(want) < 25 {
		t.Fatalf("routes.go has %d paths", len(want))
	}
	d, _ := openAPI(t)
	for path := range want {
		if d.Paths[path] == nil {
			t.Errorf("docs/openapi.yaml has no %s", path)
		}
	}
	for path := range d.Paths {
		if !want[path] {
			t.Errorf("docs/openapi.yaml has %s, which is none of the port", path)
		}
	}
}

// Each path accepts exactly the methods and parameters of the document, and responds with its media
// types.
func TestOpenAPIIsWhatTheServerDoes(t *testing.T) {
	d, _ := openAPI(t)
	h := newCapable()
	for path, operations := range d.Paths {
		target := strings.NewReplacer("{shard}", "1", "{name}", "job").Replace(path)
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
			o, documented := operations[strings.ToLower(method)]
			if !documented {
				if code := fetchJSON(t, h, method, target, "").Code; code != http.StatusMethodNotAllowed {
					t.Errorf("%s %s is not in docs/openapi.yaml, and answered %d", method, path, code)
				}
				continue
			}
			names, required, err := d.query(o)
			if err != nil {
				t.Errorf("%s %s: %v", method, path, err)
				continue
			}
			checkParameters(t, h, method, target, names)
			if method == "GET" {
				checkAnswer(t, h, target, required, d.types(o))
			}
		}
	}
}

// unread returns the paths that ignore the query.
func unread() []string { return []string{"/livez", "/readyz", "/metrics"} }

func checkParameters(t *testing.T, h http.Handler, method, target string, names []string) {
	t.Helper()
	if slices.Contains(unread(), target) {
		return
	}
	res := fetchJSON(t, h, method, target+"?zzz=1", "")
	p, err := problem.Decode(res.Body.Bytes())
	if err != nil || p.Param != "zzz" {
		t.Errorf("%s %s?zzz=1 answered %d %s", method, target, res.Code, res.Body)
		return
	}
	_, list, _ := strings.Cut(p.Detail, "is not known here: use ")
	var takes []string
	if list != "" {
		takes = strings.Split(list, ", ")
	}
	slices.Sort(takes)
	slices.Sort(names)
	if !slices.Equal(takes, names) {
		t.Errorf("%s %s takes %v, docs/openapi.yaml says %v", method, target, takes, names)
	}
}

func checkAnswer(t *testing.T, h http.Handler, target string, required, types []string) {
	t.Helper()
	values := url.Values{}
	for _, name := range required {
		values.Set(name, "n3")
	}
	for _, accept := range []string{"application/json", "text/html"} {
		res := fetchJSON(t, h, "GET", target+"?"+values.Encode(), "", "Accept", accept)
		got, _, _ := strings.Cut(res.Header().Get("Content-Type"), ";")
		if res.Code != http.StatusOK || !slices.Contains(types, got) {
			t.Errorf("GET %s for %s answered %d with %q, docs/openapi.yaml says %v", target, accept, res.Code, got, types)
		}
	}
	if len(required) > 0 {
		if code := fetchJSON(t, h, "GET", target, "").Code; code != http.StatusBadRequest {
			t.Errorf("GET %s without %v answered %d", target, required, code)
		}
	}
}

// The schemas of the document match the Go types of the responses.
func TestOpenAPIHasTheSchemas(t *testing.T) {
	d, text := openAPI(t)
	before, have, found := strings.Cut(text, made)
	if !found {
		t.Fatalf("docs/openapi.yaml has no line %q", made)
	}
	want, err := schemas(refs(before))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(openAPIFile, []byte(before+made+want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != want {
		t.Error("the schemas of docs/openapi.yaml are older than the types: go test ./admin -run OpenAPI -update")
	}
	for _, name := range refs(text) {
		if d.Components.Schemas[name].Properties == nil {
			t.Errorf("docs/openapi.yaml has no schema %q", name)
		}
	}
	var p map[string]any
	full := problem.Problem{
		Code: problem.BadRequest, Detail: "d", RetryAfter: 1, Node: "n", HasShard: true, Epoch: 1, Reason: "r", Finding: "f", Param: "p", Value: "v",
	}
	if err := yaml.Unmarshal(full.AppendJSON(nil), &p); err != nil {
		t.Fatal(err)
	}
	documented := d.Components.Schemas["Problem"].Properties
	for name := range p {
		if documented[name] == nil {
			t.Errorf("docs/openapi.yaml: a problem has no %q", name)
		}
	}
	for name := range documented {
		if p[name] == nil {
			t.Errorf("docs/openapi.yaml: a problem has %q, which none has", name)
		}
	}
}
