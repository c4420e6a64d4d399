// Package layering_test checks the imports of all packages: a table lists which packages
// each of them may import. A package without an entry fails.
package layering_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "shardway"

// allowed lists for each package (below the module's path) which of our packages
// it may import. A pattern that ends in "/..." means the package and all below.
func allowed() map[string][]string {
	return map[string][]string{
		// Pure.
		"shardmap":          {},
		"ack":               {"ack/join", "shardmap"},
		"ack/join":          {},
		"ack/agent":         {"ack", "ack/election", "shardmap"},
		"ack/election":      {},
		"ack/leader":        {"ack", "shardmap"},
		"ack/scale":         {"ack", "ack/agent", "ack/leader", "shardmap", "internal/clock"}, // only its test uses it
		"keysource":         {"internal/fieldname", "internal/valueerr", "internal/suggest", "keysource/jsonkey"},
		"keysource/jsonkey": {},
		"registry":          {},
		"config":            {"shardmap", "internal/nodelabel", "internal/fieldname", "internal/headerrules", "keysource", "internal/address", "internal/timingrules", "internal/valueerr", "internal/suggest", "internal/execcommand"},
		// Beside each other, below proxy.
		"queue":         {"internal/linkedlist"},
		"diagnosis":     {},
		"endpoints":     {},
		"event":         {"diagnosis"},
		"event/webhook": {"event", "internal/address"},
		"peer":          {"internal/clock", "internal/linkedlist", "internal/rawio"},
		"peer/mux":      {"internal/rawio"},
		// The data path.
		"proxy/eventstream":   {},
		"proxy/h1":            {"internal/fieldname", "internal/linkedlist", "internal/rawio"},
		"proxy/forwarded":     {"proxy/h1"},
		"proxy/route":         {"internal/problem", "proxy/shardkey", "shardmap"},
		"proxy/shardkey":      {"internal/fieldname", "shardmap", "proxy/forwarded", "proxy/h1", "proxy/wrapkey", "keysource", "keysource/jsonkey", "internal/problem"},
		"proxy/wrapkey":       {"proxy/h1", "keysource"},
		"proxy/retry":         {},
		"proxy/keylimit":      {"internal/linkedlist"},
		"proxy/pathguard":     {},
		"proxy/sizehint":      {"proxy/h1"},
		"proxy/appsilence":    {},
		"proxy/listener":      {"internal/coarsetime", "internal/rawio"},
		"proxy/buffer":        {"internal/linkedlist"},
		"proxy/loadstats":     {"proxy/shardkey", "shardmap", "internal/topk"},
		"proxy/wsframe":       {},
		"proxy/wsession":      {"shardmap"},
		"proxy":               {"internal/headerrules", "keysource", "proxy/h1", "proxy/wsfirst", "proxy/wsframe", "proxy/wsession", "proxy/pathguard", "proxy/forwarded", "proxy/shardkey", "proxy/route", "proxy/retry", "shardmap", "queue", "internal/problem", "internal/netpoll", "internal/rawio", "proxy/loadstats", "proxy/sizehint", "proxy/appsilence", "proxy/listener", "internal/workerpool", "proxy/cachecontrol", "proxy/backoff", "proxy/buffer", "internal/coarsetime", "proxy/connpool", "proxy/metrics", "proxy/accesslog", "proxy/cause", "proxy/eventrelay", "proxy/inflight", "proxy/peerpath", "proxy/poison", "proxy/reqbody", "proxy/wsrelay", "proxy/wstunnel", "proxy/eventloop", "proxy/connset", "proxy/connlife", "proxy/inbound", "proxy/inbound/http1", "proxy/httpclock", "proxy/panics", "proxy/inproc", "proxy/wrapkey", "proxy/keylimit", "proxy/procpool", "proxy/upstream"},
		"proxy/cachecontrol":  {"proxy/h1"},
		"proxy/backoff":       {"queue"},
		"proxy/metrics":       {"internal/servicelabel", "proxy/keylimit", "internal/nativehist", "internal/problem", "proxy/route", "proxy/wsession"},
		"proxy/wsfirst":       {"internal/linkedlist", "internal/problem", "proxy/h1", "proxy/shardkey", "proxy/wsession", "proxy/wsframe", "proxy/wsrelay"},
		"proxy/wstunnel":      {"proxy/h1", "proxy/wsession", "proxy/wsframe"},
		"proxy/eventrelay":    {"proxy/eventstream", "proxy/h1"},
		"proxy/reqbody":       {"internal/coarsetime", "proxy/buffer", "proxy/h1", "proxy/inbound"},
		"proxy/cause":         {},
		"proxy/wsrelay":       {"internal/coarsetime", "internal/netpoll", "proxy/cause", "proxy/h1", "proxy/route", "proxy/wsession", "proxy/wsframe", "shardmap", "proxy/inbound"},
		"proxy/inflight":      {"proxy/cause", "proxy/connpool", "proxy/eventrelay", "proxy/inbound", "proxy/route", "proxy/wsession", "proxy/wsrelay", "proxy/wstunnel", "shardmap"},
		"proxy/accesslog":     {"internal/problem", "proxy/forwarded", "proxy/h1", "proxy/route", "proxy/shardkey", "shardmap"},
		"proxy/poison":        {"shardmap"},
		"proxy/procpool":      {"internal/coarsetime", "proxy/connpool", "proxy/route", "shardmap"},
		"proxy/upstream":      {"internal/address", "internal/rawio", "proxy/connpool", "proxy/h1", "proxy/metrics", "proxy/procpool", "proxy/route", "shardmap"},
		"proxy/peerpath":      {"proxy/connpool", "proxy/h1"},
		"proxy/eventloop":     {"internal/rawio", "proxy/connpool", "proxy/h1"},
		"proxy/connset":       {"internal/coarsetime", "internal/netpoll"},
		"proxy/connlife":      {"proxy/inbound"},
		"proxy/inbound":       {"proxy/h1"},
		"proxy/inbound/http1": {"proxy/h1", "proxy/inbound"},
		"proxy/httpclock":     {"internal/coarsetime"},
		"proxy/panics":        {},
		"proxy/inproc":        {"proxy/buffer", "proxy/cause", "proxy/connlife", "proxy/eventrelay", "proxy/h1", "proxy/inbound", "proxy/inflight", "proxy/reqbody"},
		"proxy/connpool":      {"internal/coarsetime", "internal/linkedlist", "proxy/backoff", "proxy/h1", "proxy/route", "proxy/wsession", "shardmap"},
		// The operator's side.
		"admin":           {"internal/nodelabel", "keysource", "admin/api", "admin/auth", "admin/connlimit", "admin/localsock", "event", "shardmap", "diagnosis", "internal/problem"},
		"admin/api":       {"event", "diagnosis"},
		"admin/apitest":   {"admin/api"}, // only tests use it
		"admin/auth":      {"admin/connlimit", "internal/certverify"},
		"admin/client":    {"admin/api", "admin/localsock", "diagnosis", "internal/problem"},
		"admin/connlimit": {"internal/linkedlist"},
		"admin/localsock": {},
		// The composition.
		"node":               {"ack/join", "internal/servicelabel", "node/idleshards", "node/campaign", "node/shutdown", "node/identity", "node/findings", "node/writelimit", "node/apphealth", "node/consensus", "node/control", "node/crashdetect", "node/disk", "node/eventlog", "node/gossip", "node/heartbeat", "node/logs", "node/membership", "node/muxpool", "node/rotation", "ack", "ack/agent", "ack/election", "ack/leader", "admin", "admin/api", "event", "event/webhook", "peer", "proxy", "proxy/wsession", "proxy/route", "queue", "shardmap", "diagnosis", "internal/chanutil", "internal/logsafe", "internal/timingrules", "internal/clock", "internal/pollctx", "internal/secret", "node/router", "node/cluster", "proxy/shardkey", "node/leaderloop", "node/adminapi", "node/keyhash", "node/childproc", "internal/procguard", "node/appinstance", "node/metrics", "proxy/upstream", "node/registrystore", "registry"},
		"node/appinstance":   {"ack", "ack/agent", "node/apphealth", "node/disk", "node/persist", "shardmap"},
		"node/metrics":       {"ack", "internal/servicelabel", "ack/agent", "event", "node/campaign", "node/consensus", "node/idleshards", "shardmap"},
		"node/apphealth":     {"ack", "ack/agent", "internal/clock", "internal/logsafe"},
		"node/consensus":     {"node/disk", "node/logs", "peer"},
		"node/control":       {"node/rotation", "admin/api", "peer"},
		"node/crashdetect":   {"node/control", "peer", "proxy/poison", "internal/clock"},
		"node/disk":          {"node/logs"},
		"node/mdns":          {},
		"node/gossip":        {"node/mdns", "node/clusterid", "node/logs", "endpoints", "internal/nodelabel", "internal/clock", "internal/rawio"},
		"node/heartbeat":     {"node/consensus", "node/logs", "ack", "peer", "shardmap", "internal/chanutil"},
		"node/hooks":         {"ack", "ack/agent", "shardmap"},
		"node/childproc":     {"ack/agent", "internal/execcommand", "internal/procguard", "proxy/procpool", "shardmap"},
		"node/clusterid":     {},
		"node/logs":          {},
		"node/diskhistory":   {"node/disk"},
		"node/eventlog":      {"ack/join", "node/consensus", "node/gossip", "ack", "admin/api", "event", "proxy/wsession", "queue", "shardmap", "diagnosis"},
		"node/membership":    {"ack/join", "node/consensus", "node/disk", "node/gossip", "ack", "ack/leader", "shardmap", "internal/clock"},
		"node/muxpool":       {"peer", "peer/mux"},
		"node/registrystore": {"registry"},
		"node/router":        {"ack", "internal/clock", "node/muxpool", "peer", "proxy", "proxy/route", "proxy/shardkey", "shardmap"},
		"node/cluster":       {"ack", "ack/leader", "admin/api", "endpoints", "node/consensus", "node/gossip", "node/membership", "shardmap"},
		"node/leaderloop":    {"ack/join", "keysource", "ack", "ack/leader", "admin/api", "diagnosis", "event", "internal/chanutil", "internal/clock", "internal/timingrules", "node/cluster", "node/clusterid", "node/consensus", "node/control", "node/eventlog", "node/gossip", "node/heartbeat", "node/logs", "node/membership", "shardmap", "node/registrystore", "registry"},
		"node/adminapi":      {"ack/join", "internal/problem", "ack", "ack/leader", "admin/api", "diagnosis", "endpoints", "internal/clock", "internal/logsafe", "internal/timingrules", "node/apphealth", "node/cluster", "node/consensus", "node/control", "node/disk", "node/gossip", "node/leaderloop", "node/logs", "node/router", "proxy", "proxy/loadstats", "queue", "shardmap", "node/registrystore", "registry"},
		"node/keyhash":       {"ack", "admin/api", "internal/secret", "internal/timingrules", "proxy/shardkey", "shardmap"},
		"node/rotation":      {"node/logs", "admin/api", "internal/secret"},
		"node/recovery":      {"node/consensus", "node/disk", "node/clusterid", "ack", "shardmap", "registry"},
		"node/persist":       {"internal/chanutil"},
		"node/writelimit":    {"ack", "ack/agent", "internal/clock", "internal/timingrules", "node/disk", "node/persist", "node/router", "shardmap"},
		"node/findings":      {"ack/join", "ack", "ack/agent", "ack/leader", "admin/api", "diagnosis", "event", "event/webhook", "internal/clock", "internal/logsafe", "node/adminapi", "node/apphealth", "node/cluster", "node/consensus", "node/control", "node/crashdetect", "node/disk", "node/eventlog", "node/gossip", "node/leaderloop", "node/membership", "node/router", "node/selfcheck", "peer", "proxy", "proxy/appsilence", "proxy/route", "queue", "shardmap"},
		"node/selfcheck":     {"diagnosis", "shardmap"},
		"node/identity":      {"ack", "diagnosis", "endpoints", "internal/chanutil", "internal/clock", "internal/logsafe", "node/cluster", "node/clusterid", "node/consensus", "node/disk", "node/diskhistory", "node/gossip", "node/membership", "peer", "shardmap"},
		"node/shutdown":      {"ack", "ack/leader", "internal/clock", "node/adminapi", "node/cluster", "node/consensus", "node/control", "node/gossip", "node/leaderloop", "node/router", "proxy", "shardmap"},
		"node/campaign":      {"ack/election", "internal/clock", "node/consensus", "node/control", "peer", "shardmap"},
		"node/idleshards":    {"ack", "internal/clock", "node/leaderloop", "node/router", "proxy", "shardmap"},
		"node/process":       {"shardmap", "endpoints", "internal/nodelabel", "node", "node/childproc", "internal/execcommand", "node/apphealth", "node/disk", "node/gossip", "node/hooks", "ack", "ack/agent", "admin", "admin/localsock", "config", "proxy", "proxy/upstream", "proxy/accesslog", "proxy/keylimit", "proxy/h1", "proxy/shardkey", "queue", "internal/address", "internal/clock", "internal/logfile", "internal/logsafe", "internal/rawio", "internal/secret", "internal/version", "diagnosis", "admin/connlimit", "admin/auth"},
		"node/announce":      {"config", "internal/secret", "node/gossip"},
		// For programs that are the app themselves.
		"embed": {"event", "internal/headerrules", "ack/agent", "config", "node/process", "proxy", "shardmap", "internal/pollctx", "internal/logsafe", "internal/version"},
		// The ends.
		"internal/execcommand":  {},
		"internal/fieldname":    {},
		"internal/headerrules":  {"internal/fieldname", "internal/valueerr"},
		"internal/procguard":    {},
		"internal/address":      {"internal/valueerr"},
		"internal/timingrules":  {},
		"internal/chanutil":     {},
		"internal/linkedlist":   {},
		"internal/coarsetime":   {},
		"internal/clock":        {},
		"internal/pollctx":      {},
		"internal/netpoll":      {"internal/rawio"},
		"internal/rawio":        {},
		"internal/logsafe":      {},
		"internal/version":      {},
		"internal/logfile":      {},
		"internal/nodelabel":    {"internal/valueerr"},
		"internal/valueerr":     {},
		"internal/suggest":      {},
		"internal/nativehist":   {},
		"internal/servicelabel": {},
		"internal/topk":         {},
		"internal/workerpool":   {},
		"internal/freeport":     {},                    // only tests use it
		"internal/overlay":      {"internal/raceflag"}, // only tests use it
		"internal/problem":      {},
		"internal/processors":   {"internal/clock"},
		"internal/memory":       {"internal/clock", "internal/processors"},
		"internal/sdnotify":     {},
		"internal/secret":       {"internal/certverify"},
		"internal/raceflag":     {}, // only tests use it
		"internal/simnet":       {},
		"internal/statefile":    {},
		"internal/certverify":   {},
		"internal/demo":         {"admin/api", "admin/client", "internal/statefile"},
		"internal/cli/bundle":   {},
		"internal/cli/terminal": {},
		"internal/cli":          {"internal/nodelabel", "internal/cli/bundle", "internal/cli/terminal", "diagnosis", "admin/api", "admin/auth", "admin/client", "config", "event", "internal/logsafe", "internal/problem", "internal/version", "node/process", "node/recovery", "internal/demo", "internal/memory", "internal/processors", "internal/sdnotify", "internal/secret", "node/announce"},
		"":                      {"internal/cli", "internal/procguard"},
	}
}

// free lists the packages that this test does not judge: tests are their only
// users.
func free(pkg string) bool { return pkg == "e2e" || strings.HasPrefix(pkg, "e2e/") }

// listed is what `go list -json` tells about a package.
type listed struct {
	ImportPath string
	GoFiles    []string // none: only tests
	Imports    []string
	Deps       []string
}

// list asks the go command about packages of this module.
func list(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-e", "-json=ImportPath,GoFiles,Imports,Deps"}, args...)...)
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
}

// own returns the path below the module, and whether the package is ours.
func own(importPath string) (string, bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// matches reports whether one of the patterns names pkg.
func matches(pkg string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if below, ok := strings.CutSuffix(p, "/..."); ok {
			return pkg == below || strings.HasPrefix(pkg, below+"/")
		}
		return pkg == p
	})
}

func TestImportsPointOneWay(t *testing.T) {
	table := allowed()
	for _, l := range list(t, "./...") {
		pkg, _ := own(l.ImportPath)
		if free(pkg) || len(l.GoFiles) == 0 {
			continue
		}
		patterns, ok := table[pkg]
		if !ok {
			t.Errorf("package %q has no line in this test: say what it may import", pkg)
			continue
		}
		var used []string
		for _, imp := range l.Imports {
			other, ours := own(imp)
			if !ours {
				continue
			}
			if used = append(used, other); !matches(other, patterns) {
				t.Errorf("package %q imports %q, which is not below it", pkg, other)
			}
		}
		for _, p := range patterns {
			if !slices.ContainsFunc(used, func(u string) bool { return matches(u, []string{p}) }) {
				t.Errorf("package %q may import %q and does not: take it off its line", pkg, p)
			}
		}
	}
}

// The directions say who may know whom directly; these are the packages that
// must not get in through others either.
func TestWhatMustStayOut(t *testing.T) {
	tests := []struct {
		packages []string
		out      []string // our packages and foreign modules
	}{
		{[]string{"shardmap", "ack", "ack/agent", "ack/join", "ack/election", "ack/leader", "keysource", "registry"}, []string{"net", "math/rand", "math/rand/v2", "github.com/rs/zerolog"}},
		{[]string{"queue", "endpoints", "peer", "proxy", "admin", "config"}, []string{"github.com/hashicorp", "go.etcd.io/bbolt", module + "/node"}},
		{[]string{"queue", "endpoints", "peer", "proxy", "admin"}, []string{module + "/config"}},
		{[]string{""}, []string{"github.com/coder/websocket", module + "/e2e", module + "/internal/simnet"}},
	}
	byPath := make(map[string]listed)
	for _, l := range list(t, "./...") {
		byPath[l.ImportPath] = l
	}
	for _, tt := range tests {
		for _, pkg := range tt.packages {
			for _, dep := range byPath[path.Join(module, pkg)].Deps {
				if dep == "net/netip" {
					continue // addresses as values, without I/O
				}
				if slices.ContainsFunc(tt.out, func(o string) bool { return dep == o || strings.HasPrefix(dep, o+"/") }) {
					t.Errorf("package %q depends on %s", pkg, dep)
				}
			}
		}
	}
}
