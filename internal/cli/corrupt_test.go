package cli_test

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// dataOf returns the data directory of a node.
func dataOf(t *testing.T, n *node) string {
	t.Helper()
	for _, a := range n.args {
		if dir, ok := strings.CutPrefix(a, "--data="); ok {
			return dir
		}
	}
	t.Fatal("no data directory")
	return ""
}

// A node whose data directory is damaged by a bad disk reports that in one line and ends. It does not
// crash repeatedly, and does not diverge from the other nodes.
func TestDamagedLogStopsTheNodeWithOneClearLine(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, s *raftboltdb.BoltStore){
		"an entry that nobody wrote": func(t *testing.T, s *raftboltdb.BoltStore) {
			t.Helper()
			e := lastCommand(t, s)
			e.Data = []byte("\x02\x63garbage")
			if err := s.StoreLog(e); err != nil {
				t.Fatal(err)
			}
		},
		"an entry cut short": func(t *testing.T, s *raftboltdb.BoltStore) {
			t.Helper()
			e := lastCommand(t, s)
			e.Data = e.Data[:len(e.Data)/2]
			if err := s.StoreLog(e); err != nil {
				t.Fatal(err)
			}
		},
		"an entry of a level that this program does not know": func(t *testing.T, s *raftboltdb.BoltStore) {
			t.Helper()
			e := lastCommand(t, s)
			e.Data = append([]byte{99}, e.Data[1:]...)
			if err := s.StoreLog(e); err != nil {
				t.Fatal(err)
			}
		},
		"an entry of a development version": func(t *testing.T, s *raftboltdb.BoltStore) {
			t.Helper()
			e := lastCommand(t, s)
			e.Data = append([]byte{1}, e.Data[1:]...)
			if err := s.StoreLog(e); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t, app(t))
			n.get(t, "http://"+n.probes+"/readyz", http.StatusOK)
			if code := n.finish(t); code != 0 {
				t.Fatalf("exit %d\n%s", code, n.log.String())
			}
			s, err := raftboltdb.NewBoltStore(filepath.Join(dataOf(t, n), "raft", "log.db"))
			if err != nil {
				t.Fatal(err)
			}
			damage(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			want := "ack: corrupt entry"
			switch {
			case strings.Contains(name, "development"):
				want = "created by a development version"
			case strings.Contains(name, "level"):
				want = "format version 99, and this program supports format versions 2 to 4: run the version of the other nodes"
			}
			wantOneLine(t, n, want, "log entry")
		})
	}
}

func lastCommand(t *testing.T, s *raftboltdb.BoltStore) *raft.Log {
	t.Helper()
	last, err := s.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	for ; last > 0; last-- {
		var e raft.Log
		if err := s.GetLog(last, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == raft.LogCommand {
			return &e
		}
	}
	t.Fatal("no command in the log")
	return nil
}

// wantOneLine starts the node again and expects exit code 1 and a last line that contains the error
// and the remedy.
func wantOneLine(t *testing.T, n *node, words ...string) {
	t.Helper()
	n.log.reset()
	n.launch(t)
	select {
	case code := <-n.ended:
		if code != 1 {
			t.Errorf("exit %d, want 1", code)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("the node goes on\n%s", n.log.String())
	}
	text := n.log.String()
	if strings.Contains(text, "panic") || strings.Contains(text, "goroutine ") {
		t.Errorf("it panicked:\n%s", text)
	}
	var said []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "shardway: ") {
			said = append(said, line)
		}
	}
	if len(said) != 1 {
		t.Fatalf("%d lines, want one:\n%s", len(said), text)
	}
	for _, w := range append(words, "--data") {
		if !strings.Contains(said[0], w) {
			t.Errorf("%q is not in %s", w, said[0])
		}
	}
}

// reset discards the output. Libraries of a node that has ended may still write to it.
func (o *output) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b.Reset()
}

func TestDamagedSnapshotStopsTheNodeWithOneClearLine(t *testing.T) {
	t.Parallel()
	n := start(t, app(t))
	n.get(t, "http://"+n.probes+"/readyz", http.StatusOK)
	file := filepath.Join(t.TempDir(), "backup")
	if code, _, errOut := run(t, "backup "+file+" --admin "+n.admin); code != 0 {
		t.Fatal(errOut)
	}
	if code := n.finish(t); code != 0 {
		t.Fatalf("exit %d\n%s", code, n.log.String())
	}
	data := filepath.Join(t.TempDir(), "restored")
	if code, _, errOut := run(t, "restore --node=solo --data="+data+" "+file); code != 0 {
		t.Fatal(errOut)
	}
	for i, a := range n.args {
		if strings.HasPrefix(a, "--data=") {
			n.args[i] = "--data=" + data
		}
	}
	found := 0
	err := filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "state.bin" {
			return err
		}
		found++
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b = bytes.Clone(b)
		b[len(b)-1] ^= 1
		return os.WriteFile(path, b, 0o600)
	})
	if err != nil || found == 0 {
		t.Fatalf("%d snapshots, %v", found, err)
	}
	wantOneLine(t, n, "snapshot")
}
