package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"shardway/diagnosis"
)

const rules, rulesTest = "shardway.rules.yml", "shardway.test.yml"

func prometheusFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "deploy/prometheus", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Each alert is seen to fire for what it is there for, and not to fire in a healthy
// cluster.
func TestEveryAlertHasATest(t *testing.T) {
	tests := prometheusFile(t, rulesTest)
	all := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(prometheusFile(t, rules), -1)
	if len(all) < 10 {
		t.Fatalf("%d alerts", len(all))
	}
	for _, a := range all {
		if !strings.Contains(tests, "\n      - alertname: "+a[1]+"\n") || !strings.Contains(tests, "{alertname: "+a[1]+", ") {
			t.Errorf("%s has no test of %s, or is not looked for in a healthy cluster", rulesTest, a[1])
		}
	}
}

// One alert has the findings of the self-check, and no others.
func TestEveryContradictionRaisesAnAlert(t *testing.T) {
	var want []string
	for _, finding := range diagnosis.Findings(diagnosis.Inputs{Contradictions: diagnosis.Contradictions{
		TwoLeaders: &diagnosis.LeaderPair{}, TwoOwners: &diagnosis.OwnerPair{}, LeaseExcess: 1, OwnersNotMembers: []string{"a"}, LeaderNotMember: "a",
	}}) {
		want = append(want, string(finding.Code))
	}
	if fields := reflect.TypeFor[diagnosis.Contradictions]().NumField(); len(want) != fields {
		t.Fatalf("the findings of %d contradictions are %q", fields, want)
	}
	found := regexp.MustCompile(`alert: ShardwayGuaranteeBroken\n.*code=~"([^"]*)"`).FindStringSubmatch(prometheusFile(t, rules))
	if len(found) != 2 || found[1] != strings.Join(want, "|") {
		t.Errorf("the alert has %q, want %q", found, strings.Join(want, "|"))
	}
}

// promtool runs Prometheus' own checker.
func promtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: it comes with Debian's package prometheus")
	}
	cmd := exec.CommandContext(t.Context(), tool, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

func TestAlertsFireAsExpected(t *testing.T) {
	dir := filepath.Join(root, "deploy/prometheus")
	promtool(t, dir, "check", "rules", rules)
	promtool(t, dir, "test", "rules", rulesTest)
}

// Prometheus understands each query of the dashboard, once its variables stand for
// something.
func TestQueriesOfTheDashboardAreUnderstood(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "deploy/grafana/shardway.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	file.WriteString("groups:\n- name: dashboard\n  rules:\n")
	queries := 0
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			query := strings.NewReplacer("$job", "shardway", "$__rate_interval", "1m").Replace(target.Expr)
			if query == "" || strings.Contains(query, "$") {
				t.Errorf("panel %q asks %q", p.Title, target.Expr)
			}
			queries++
			fmt.Fprintf(&file, "  - record: query%d\n    expr: %q\n", queries, query)
		}
	}
	if queries < 20 {
		t.Fatalf("%d queries", queries)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dashboard.yml"), []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, dir, "check", "rules", "dashboard.yml")
}
