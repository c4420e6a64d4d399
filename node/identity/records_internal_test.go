package identity

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"shardway/node/disk"
)

// Damaged records of other disks do not prevent the start of a node: its own disk is healthy, and if an operator restored the disk, the
// node would be rejected for good.
func TestDamagedDiskRecordsAreReplaced(t *testing.T) {
	path := t.TempDir()
	file := filepath.Join(path, "known.json")
	for _, damage := range []string{"", "\x00\x00\x00", `{"format":1,"disks":[{"server":"b/x","boot":7`, `{"format":1,"disks":[{"server":"b/x","boot":-1}]}`, `{"format":2}`, `{"format":1,"disks":[{"server":"b/x","boot":7,"nonce":1}]}`} {
		if err := os.WriteFile(file, []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		dir, err := disk.Open(path, "a")
		if err != nil {
			t.Fatal(err)
		}
		begin := func() (known int, log string) {
			var out bytes.Buffer
			r := NewRecords(RecordsOptions{Dir: dir, Log: zerolog.New(&out)})
			return len(r.table.All()), out.String()
		}
		known, log := begin()
		if known != 0 || strings.Count(log, "\n") != 1 || !strings.Contains(log, `"warn"`) || !strings.Contains(log, file) || strings.Contains(log, "restore") {
			t.Errorf("%q: %d disks known, and %q, want none and one warning that names the file", damage, known, log)
		}
		if err := dir.StoreDiskRecords([]disk.DiskRecord{{Server: "b/x", Boot: 7, Nonce: 1}}); err != nil {
			t.Fatal(err)
		}
		if known, log := begin(); known != 1 || log != "" {
			t.Errorf("kept anew: %d disks known, and %q, want one and no word", known, log)
		}
		if err := dir.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
