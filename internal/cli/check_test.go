package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardway/diagnosis"
)

func TestCheckGivesAdvice(t *testing.T) {
	const line = "check --key=cookie:PHPSESSID --on-missing-key=hash-path"
	code, out, _ := run(t, line)
	if !strings.HasSuffix(out, "ok: the configuration is valid (see the advice: 1)\n") {
		t.Errorf("the last line does not count the advice:\n%s", out)
	}
	if code != 0 || !strings.HasPrefix(out, `advice: key = "cookie:PHPSESSID" (flag): `) {
		t.Errorf("exit %d\n%s", code, out)
	}
	_, out, _ = run(t, line+" --json")
	var v struct {
		OK     bool
		Advice []struct{ Key, Value, Wrong, Remedy string }
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || !v.OK || len(v.Advice) != 1 || v.Advice[0].Remedy == "" {
		t.Errorf("%v\n%s", err, out)
	}
	if _, out, _ = run(t, "check --json"); !strings.Contains(out, `"advice": []`) {
		t.Errorf("without advice the list is not empty:\n%s", out)
	}
}

func TestCheckReportsADataDirectoryThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, _ := run(t, "check --data="+file)
	if code != 2 || !strings.HasPrefix(out, `data = "`+file+`" (flag): directory "`+file+`" cannot be written: `) || !strings.Contains(out, "or name another with --data") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

func TestCheckComparesWithARunningCluster(t *testing.T) {
	addr := serveCluster(t, ailing{&cluster{}, func(c *diagnosis.Checkup) {
		c.Reports[0].Settings = map[string]string{"key": "header:x-tenant", "drain-timeout": "5s", "later": "1"}
		c.Reports[1].Settings = map[string]string{"key": "query:t", "drain-timeout": "5s"}
	}})
	code, out, errOut := run(t, "check --key=header:X-Tenant --against "+addr)
	if code != 1 || !strings.HasPrefix(out, `differs: key = "header:x-tenant" (flag); the cluster has "query:t" at b`+"\n") || strings.Contains(out, "differs: drain-timeout") || strings.Contains(out, "ok:") {
		t.Errorf("exit %d: %s\n%s", code, errOut, out)
	}
	code, out, _ = run(t, "check --json --key=host --against="+addr)
	var v struct {
		OK          bool
		Differences []struct {
			Setting, Value string
			Cluster        []diagnosis.SettingValue
		}
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 1 || !v.OK || len(v.Differences) != 1 || len(v.Differences[0].Cluster) != 2 {
		t.Errorf("exit %d, %v\n%s", code, err, out)
	}
	same := serveCluster(t, ailing{&cluster{}, func(c *diagnosis.Checkup) {
		c.Reports[0].Settings = map[string]string{"key": "header:x-shard-key"}
	}})
	if code, out, errOut = run(t, "check --against "+same); code != 0 || strings.Contains(out, "differs") || !strings.HasSuffix(out, "ok: the configuration is valid, and agrees with the cluster at "+same+"\n") {
		t.Errorf("exit %d: %s\n%s", code, errOut, out)
	}
	for addr, want := range map[string]string{"127.0.0.1:1": "name it with --against ADDR", "x": `--against "x" is not an address`} {
		if _, _, errOut = run(t, "check --against "+addr); !strings.Contains(errOut, want) || strings.Contains(errOut, "--admin") {
			t.Errorf("--against %s: %s", addr, errOut)
		}
	}
	for line, want := range map[string]int{"check --against": 2, "check --against --json": 2, "check --against 127.0.0.1:1": 1, "check --shards=0 --against 127.0.0.1:1": 2} {
		if code, _, _ = run(t, line); code != want {
			t.Errorf("%s: exit %d, want %d", line, code, want)
		}
	}
}

// A node whose announcement cannot fit would not start. The report names the setting that takes the most space.
func TestCheckReportsAnAnnouncementThatIsTooLong(t *testing.T) {
	meta := "note=" + strings.Repeat("x", 251)
	code, out, errOut := run(t, "check --meta="+meta+" --app-version="+strings.Repeat("v", 64)+" --zone="+strings.Repeat("z", 64))
	if code != 2 || strings.Count(out, "\n") != 1 {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	for _, want := range []string{`meta = "` + meta + `" (flag)`, "512 per member", "takes 256 bytes: shorten it"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in: %s", want, out)
		}
	}
	if code, out, errOut := run(t, "check --meta="+meta); code != 0 {
		t.Errorf("the same metadata alone: exit %d: %s%s", code, out, errOut)
	}
}
