package disk_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"shardway/node/disk"
)

// A data directory that a umask or an image left open to every user is closed,
// and nothing else: not what a group was given, and not a directory that is used
// for other things too.
func TestOpenDataDirectoryIsClosed(t *testing.T) {
	file := func(t *testing.T, path string) {
		t.Helper()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		mode, want fs.FileMode
		told       bool // that it was open
		fill       func(t *testing.T, dir string)
	}{
		"open to read":       {0o755, 0o700, true, nil},
		"open to write":      {0o777, 0o700, true, nil},
		"the group's too":    {0o750, 0o750, false, nil},
		"closed":             {0o700, 0o700, false, nil},
		"for everybody":      {0o777 | fs.ModeSticky, 0o777 | fs.ModeSticky, true, nil},
		"a volume":           {0o755, 0o700, true, func(t *testing.T, dir string) { t.Helper(); file(t, filepath.Join(dir, "lost+found")) }},
		"of other use":       {0o755, 0o755, true, func(t *testing.T, dir string) { t.Helper(); file(t, filepath.Join(dir, ".profile")) }},
		"of one that is one": {0o755, 0o700, true, func(t *testing.T, dir string) { t.Helper(); openedBefore(t, dir) }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.fill != nil {
				tt.fill(t, dir)
			}
			if err := os.Chmod(dir, tt.mode); err != nil {
				t.Fatal(err)
			}
			d, err := disk.Open(dir, "a")
			if err != nil {
				t.Fatal(err)
			}
			o := d.Openness()
			if err = d.Close(); err != nil {
				t.Fatal(err)
			}
			st, err := os.Stat(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := st.Mode() &^ fs.ModeDir; got != tt.want {
				t.Errorf("the mode is %v, want %v", got, tt.want)
			}
			if told, closed := o.Mode != 0, tt.told && tt.want == 0o700; told != tt.told || o.Closed != closed {
				t.Errorf("told %+v, want told %v, closed %v", o, tt.told, closed)
			}
		})
	}
}

// openedBefore leaves what a node leaves.
func openedBefore(t *testing.T, dir string) {
	t.Helper()
	d, err := disk.Open(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.OpenStores(disk.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err = s.Close(); err != nil {
		t.Fatal(err)
	}
	if err = d.Close(); err != nil {
		t.Fatal(err)
	}
}
