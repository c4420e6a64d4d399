package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"shardway/admin/api"
	"shardway/internal/cli"
)

// tidied is an output that fails one write after a number of writes. Later writes succeed, as on a
// full disk on which space was freed.
type tidied struct {
	takes  int
	failed bool
}

var errFull = errors.New("no space left on device")

func (o *tidied) Write(p []byte) (int, error) {
	o.takes--
	if o.takes == -1 {
		o.failed = true
		return 0, errFull
	}
	return len(p), nil
}

// A command whose output could not be written fails, because a script takes exit code 0 as a sign that
// the output is complete.
func TestOutputThatIsNotWrittenIsAFailure(t *testing.T) {
	waits := func() api.Cluster { return comes(api.Status{Node: "a", Epoch: 4}) }
	levels := func() api.Cluster {
		return &upgradable{state: api.UpgradeState{CurrentVersion: 1, Next: 1, Nodes: []api.NodeUpgrade{{Node: "a", MaxFormatVersion: 1, HasHeartbeat: true}}}}
	}
	for line, c := range map[string]func() api.Cluster{
		"wait node z --timeout=1m": waits,
		"upgrade status":           levels,
		"hot":                      func() api.Cluster { return &cluster{} },
	} {
		addr := serveCluster(t, c())
		failed := 0
		for takes := range 8 {
			out, errOut := &tidied{takes: takes}, &bytes.Buffer{}
			if strings.HasPrefix(line, "wait") && takes > 0 {
				break // the output has one line for each change, and this is the only one
			}
			code := cli.Run(t.Context(), append(strings.Fields(line), "--admin="+addr), nil, out, errOut)
			if !out.failed {
				break
			}
			failed++
			if code != 1 || !strings.Contains(errOut.String(), errFull.Error()) {
				t.Errorf("%s: write %d failed, exit %d, %s", line, takes+1, code, errOut)
			}
		}
		if failed == 0 {
			t.Errorf("%s wrote nothing", line)
		}
	}
}

// A rejected request or an unreachable node causes one error line and no table.
func TestUpgradeHotAndStepDownFailInOneLine(t *testing.T) {
	addr := serve(t, &cluster{}) // it has no format version
	const nobody = "--admin=127.0.0.1:1"
	for line, want := range map[string]string{
		"upgrade status " + nobody:                                 "nothing listens on",
		"upgrade finalize --admin=" + addr:                         "no format version",
		"upgrade status --token-file=/nonexistent --admin=" + addr: "/nonexistent",
		"hot " + nobody:                                            "nothing listens on",
		"hot --token-file=/nonexistent --admin=" + addr:            "/nonexistent",
		"step-down --token-file=/nonexistent --admin=" + addr:      "/nonexistent",
	} {
		if code, out, errOut := run(t, line); code != 1 || out != "" || strings.Count(errOut, "\n") != 1 || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %q, %s", line, code, out, errOut)
		}
	}
}

// The table has as many rows as requested, and no more than exist. An empty table is not an error.
func TestHotShowsSoMany(t *testing.T) {
	addr := serve(t, &cluster{}) // with two shards and one key
	for line, want := range map[string][2]int{"hot": {2, 1}, "hot --limit=2": {2, 1}, "hot --limit=1": {1, 1}, "hot --limit=0": {}, "hot --limit=-3": {}} {
		code, out, errOut := run(t, line+" --json --admin="+addr)
		var got api.HotList
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || [2]int{len(got.Shards), len(got.Keys)} != want {
			t.Errorf("%s: exit %d, %s, %v: %s", line, code, errOut, err, out)
		}
	}
}
