package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shardway/node/disk"
)

func mustOpen(t *testing.T, path, node string) *disk.Dir {
	t.Helper()
	d, err := disk.Open(path, node)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not contain %q", err, p)
		}
	}
}

func TestIdentityStaysAndBootsCount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "data")
	var node, id string
	for boot := uint64(1); boot <= 3; boot++ {
		d := mustOpen(t, path, "")
		if boot == 1 {
			node, id = d.Node(), d.Disk()
			if !strings.HasPrefix(node, "n-") || len(node) != 8 || len(id) < 13 {
				t.Fatalf("node %q disk %q, want n-xxxxxx and at least 8 random bytes", node, id)
			}
		}
		if d.Node() != node || d.Disk() != id || d.Boot() != boot {
			t.Fatalf("opened %q %q boot %d, want %q %q boot %d", d.Node(), d.Disk(), d.Boot(), node, id, boot)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v, want 0700", fi.Mode(), err)
	}
}

func TestAnotherNodeIDIsRefused(t *testing.T) {
	path := t.TempDir()
	if err := mustOpen(t, path, "a").Close(); err != nil {
		t.Fatal(err)
	}
	_, err := disk.Open(path, "b")
	wantError(t, err, path, `"a"`, `"b"`, "--node")
	if got := mustOpen(t, path, "a").Boot(); got != 2 {
		t.Errorf("boot %d after a refused one, want 2", got)
	}
}

func TestBadNodeIDsAreRefused(t *testing.T) {
	for _, id := range []string{"a/b", "a b", strings.Repeat("x", 65), "ä"} {
		if d, err := disk.Open(t.TempDir(), id); err == nil {
			t.Errorf("Open accepted node id %q", id)
			_ = d.Close()
		}
	}
}

func TestDirectoryInUseIsRefused(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, path, "a")
	_, err := disk.Open(path, "a")
	wantError(t, err, path, "in use", "pid ", "--data")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if got := mustOpen(t, path, "a").Boot(); got != 2 {
		t.Errorf("boot %d, want 2: a refused Open must not count", got)
	}
}

func TestUnusableDirectoryIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := disk.Open(file, "")
	wantError(t, err, file, "--data")

	if os.Getuid() == 0 {
		return // Root may write anywhere.
	}
	ro := filepath.Join(t.TempDir(), "ro")
	if err = os.Mkdir(ro, 0o500); err != nil {
		t.Fatal(err)
	}
	_, err = disk.Open(ro, "")
	wantError(t, err, ro, "writable", "--data")
}

func TestUnknownFormatIsRefused(t *testing.T) {
	path := t.TempDir()
	if err := mustOpen(t, path, "a").Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"identity.json", "boot.json"} {
		old, err := os.ReadFile(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		newer := strings.Replace(string(old), `"format":1`, `"format":2`, 1)
		if err = os.WriteFile(filepath.Join(path, name), []byte(newer), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = disk.Open(path, "")
		wantError(t, err, name, "format 2", "format 1")
		if err := os.WriteFile(filepath.Join(path, name), old, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLostIdentityIsRefused(t *testing.T) {
	path := t.TempDir()
	if err := mustOpen(t, path, "a").Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(path, "identity.json")); err != nil {
		t.Fatal(err)
	}
	_, err := disk.Open(path, "a")
	wantError(t, err, "identity.json", "boot.json")
}

// If the log is lost but the disk id is kept, a voter could vote a second time in a term.
func TestLostLogIsRefused(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, path, "a")
	stores(t, d, disk.StoreOptions{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = mustOpen(t, path, "a")
	stores(t, d, disk.StoreOptions{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(path, "raft")); err != nil {
		t.Fatal(err)
	}
	_, err := mustOpen(t, path, "a").OpenStores(disk.StoreOptions{})
	wantError(t, err, "log.db", "gone")
}

func TestDamagedFileIsRefused(t *testing.T) {
	path := t.TempDir()
	if err := mustOpen(t, path, "a").Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "boot.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := disk.Open(path, "a")
	wantError(t, err, "boot.json", "damaged")
}

func TestClusterIsKept(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, path, "")
	if id, n := d.Cluster(); id != "" || n != 0 {
		t.Fatalf("new directory has cluster %q, %d shards", id, n)
	}
	if err := d.SetCluster("c-1", 1024); err != nil {
		t.Fatal(err)
	}
	wantError(t, d.SetCluster("c-2", 1024), "c-1", "c-2")
	wantError(t, d.SetCluster("c-1", 512), "1024", "512")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if id, n := mustOpen(t, path, "").Cluster(); id != "c-1" || n != 1024 {
		t.Errorf("cluster %q, %d shards after a restart, want c-1, 1024", id, n)
	}
}

func TestRaiseExceedsReportedBoot(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, path, "")
	for _, c := range []struct{ told, want uint64 }{{0, 1}, {1, 1}, {7, 8}, {3, 8}, {8, 8}, {9, 10}} {
		if got, err := d.RaiseBoot(c.told); err != nil || got != c.want || d.Boot() != c.want {
			t.Errorf("Raise(%d) = %d, %v; Boot() = %d, want %d", c.told, got, err, d.Boot(), c.want)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if got := mustOpen(t, path, "").Boot(); got != 11 {
		t.Errorf("boot %d after a restart, want 11", got)
	}
	if _, err := d.RaiseBoot(100); err == nil {
		t.Error("a closed directory raised its boot")
	}
}

// A killed process leaves its pid in the lock file, but no lock.
func TestKilledHolderDoesNotLock(t *testing.T) {
	path := t.TempDir()
	if os.Getenv("DISK_TEST_DIR") != "" {
		if _, err := disk.Open(os.Getenv("DISK_TEST_DIR"), ""); err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString("open\n")
		select {}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledHolderDoesNotLock$")
	cmd.Env = append(os.Environ(), "DISK_TEST_DIR="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err = out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	_, err = disk.Open(path, "")
	wantError(t, err, "in use")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := mustOpen(t, path, "").Boot(); got != 2 {
		t.Errorf("boot %d, want 2", got)
	}
}

func TestMemorySurvivesACrash(t *testing.T) {
	m := disk.NewMemory()
	a, err := m.Open("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = m.Open(""); err == nil {
		t.Error("Memory opened twice")
	}
	if err = m.Crash(); err != nil {
		t.Fatal(err)
	}
	b, err := m.Open("")
	if err != nil {
		t.Fatal(err)
	}
	if a.Node() != b.Node() || a.Disk() != b.Disk() || b.Boot() != 2 {
		t.Errorf("reopened as %q %q boot %d, want %q %q boot 2", b.Node(), b.Disk(), b.Boot(), a.Node(), a.Disk())
	}
	if err := a.SetCluster("c", 8); err == nil {
		t.Error("the crashed node wrote")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Open(""); err == nil {
		t.Error("closing the crashed node unlocked the directory of its successor")
	}
}

func TestPromiseIsKept(t *testing.T) {
	path := t.TempDir()
	for i, want := range []string{"", "a", "b", ""} {
		d := mustOpen(t, path, "")
		if got, err := d.PromisedNode(); err != nil || got != want {
			t.Errorf("Promised() = %q, %v, want %q", got, err, want)
		}
		if next := []string{"a", "b", "", ""}[i]; next != want {
			if err := d.StorePromise(next); err != nil {
				t.Fatal(err)
			}
		}
		_ = d.Close()
	}
}

// The table of known disks is complete after a restart.
func TestKnownDisksAreKept(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, path, "a")
	if known, err := d.DiskRecords(); err != nil || len(known) != 0 {
		t.Errorf("a new directory knows of %v, %v", known, err)
	}
	want := []disk.DiskRecord{{Server: "b/x", Boot: 1, Nonce: 1<<64 - 1, Term: 3, Applied: 4}, {Server: "c/y", Boot: 5, Nonce: 6}}
	if err := errors.Join(d.StoreDiskRecords(want[:1]), d.StoreDiskRecords(want), d.Close()); err != nil {
		t.Fatal(err)
	}
	if err := d.StoreDiskRecords(nil); err == nil {
		t.Error("kept after Close, when another process may have the directory")
	}
	d = mustOpen(t, path, "a")
	defer func() { _ = d.Close() }()
	if known, err := d.DiskRecords(); err != nil || !slices.Equal(known, want) {
		t.Errorf("Known() = %v, %v, want %v", known, err, want)
	}
}

// A flipped digit can make the boot or term of a healthy disk too high, which would stop
// that disk's node forever. A damaged file is renamed and nothing in it is used.
func TestDamagedKnownFileIsRenamed(t *testing.T) {
	path := t.TempDir()
	file := filepath.Join(path, "known.json")
	d := mustOpen(t, path, "a")
	defer func() { _ = d.Close() }()
	want := []disk.DiskRecord{{Server: "b/x", Boot: 7, Nonce: 1<<64 - 1, Term: 3, Applied: 4}}
	if err := d.StoreDiskRecords(want); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole[:len(whole)-1] { // except the line break at the end
		for bit := range 8 {
			flipped := slices.Clone(whole)
			flipped[i] ^= 1 << bit
			if err := os.WriteFile(file, flipped, 0o600); err != nil {
				t.Fatal(err)
			}
			known, err := d.DiskRecords()
			if slices.Equal(known, want) && err == nil {
				continue // a name in other letter case is equal to a JSON decoder
			}
			if err == nil || len(known) != 0 || !strings.Contains(err.Error(), file) {
				t.Fatalf("byte %d, bit %d: Known() = %v, %v, want nothing and an error that names %s", i, bit, known, err, file)
			}
			aside, bad := os.ReadFile(filepath.Join(path, "damaged-known.json"))
			if _, err := os.Stat(file); bad != nil || !slices.Equal(aside, flipped) || !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("byte %d, bit %d: %v, %v, want it aside as it was", i, bit, bad, err)
			}
		}
	}
	if known, err := d.DiskRecords(); err != nil || len(known) != 0 {
		t.Errorf("the next time: %v, %v, want it begun anew", known, err)
	}
}

// Each start of an older image counts a boot. The boot number must not exceed the one that
// other nodes have recorded.
func TestCondemnedDirectoryIsNotOpenedAgain(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, path, "a")
	if err := errors.Join(d.MarkStale("it was in term 7"), d.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := disk.Open(path, "a")
		if err == nil || !strings.Contains(err.Error(), "it was in term 7: "+disk.RemedyStale) || !strings.Contains(err.Error(), path) {
			t.Fatalf("Open = %v, want it to say why not, and what to do", err)
		}
	}
	d, err := disk.OpenRepair(path, "a") // it may contain the only copy of the data
	if err != nil || d.Boot() != 2 {
		t.Errorf("OpenRepair = %v, %v, want boot 2", d, err)
	}
}

// A program that does not support the level in force must notice before it opens the log.
func TestLevelIsKeptAndNeverLowered(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	for _, step := range []struct{ before, keep, after uint8 }{{0, 2, 2}, {2, 1, 2}, {2, 3, 3}, {3, 3, 3}} {
		d, err := disk.Open(data, "a")
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Level(); got != step.before {
			t.Errorf("level %d, want %d", got, step.before)
		}
		if err := d.StoreLevel(step.keep); err != nil || d.Level() != step.after {
			t.Errorf("level %d after %d was kept, %v, want %d", d.Level(), step.keep, err, step.after)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := d.StoreLevel(9); err == nil {
			t.Error("kept in a directory that another process may have")
		}
	}
}
