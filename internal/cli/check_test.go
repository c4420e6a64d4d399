package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckGivesAdvice(t *testing.T) {
	const line = "check --key=cookie:PHPSESSID --on-missing=hash-path"
	code, out, _ := run(t, line)
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
