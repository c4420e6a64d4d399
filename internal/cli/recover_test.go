package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardway/node/recovery"
)

func want(t *testing.T, line string, code int, parts ...string) string {
	t.Helper()
	got, out, errOut := run(t, line)
	if got != code {
		t.Fatalf("%s: exit %d, want %d: %s", line, got, code, errOut)
	}
	for _, p := range parts {
		if !strings.Contains(out+errOut, p) {
			t.Errorf("%s does not say %q:\n%s%s", line, p, out, errOut)
		}
	}
	if strings.Count(errOut, "\n") > 1 {
		t.Errorf("%s: more than a line of errors:\n%s", line, errOut)
	}
	return out
}

// A cluster that is lost twice is recovered first from a backup, and then from a surviving node.
func TestBackupRestoreRecover(t *testing.T) {
	dir := t.TempDir()
	file, data := filepath.Join(dir, "b"), filepath.Join(dir, "data")
	want(t, "backup "+file+" --admin "+serve(t, &cluster{}), 0, "cluster c1, 4 shards")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("files left beside the backup: %v, %v", left, err)
	}
	want(t, "restore "+file+" --node a --data "+data, 0, "continues from the state of c1", "above ", "empty data directories")
	want(t, "restore "+file+" --node a --data "+data, 1, "in use by a cluster", "shardway recover")

	var v recovery.Survivor
	code, out, errOut := run(t, "recover --json --data "+data)
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 1 || v.Node != "a" || !strings.HasPrefix(v.Cluster, "c1.") {
		t.Fatalf("recover without --confirm: exit %d, %+v, %v", code, v, err)
	}
	if !strings.Contains(errOut, "nothing was changed") || !strings.Contains(errOut, "--confirm "+v.Cluster) {
		t.Errorf("recover does not say how to confirm: %s", errOut)
	}
	want(t, "recover --data "+data+" --confirm c1", 1, v.Cluster, `--confirm is "c1"`)
	want(t, "recover --data "+data+" --confirm "+v.Cluster, 0, "continues from the state of "+v.Cluster, "kept in "+filepath.Join(data, "before-"))
	want(t, "recover --data "+data+" --confirm "+v.Cluster, 1, "--confirm is")
}

func TestRestoreRefusesWhatIsNoBackup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, "restore "+file+" --data "+t.TempDir(), 1, file, "not a backup")
	want(t, "restore "+file+".none --data "+t.TempDir(), 1, "no such file")
	want(t, "recover --data "+file+".none", 1, "does not exist", "--data")
}
