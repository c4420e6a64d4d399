package recovery_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/node/clusterid"
	"shardway/node/consensus"
	"shardway/node/disk"
	"shardway/node/recovery"
)

// now is a time whose milliseconds are far above any index of these tests.
var now = time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)

// backup returns a backup of a cluster that was just founded.
func backup(t *testing.T) []byte {
	t.Helper()
	s, _, err := ack.NewState().Apply(2, 1, ack.EncodeBootstrap(clusterid.New(), 16, ack.DefaultTiming()))
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Backup()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func restored(t *testing.T) (string, recovery.Result) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	r, err := recovery.Restore(recovery.Options{Data: data, Node: "a", Now: now}, backup(t))
	if err != nil {
		t.Fatal(err)
	}
	return data, r
}

func look(t *testing.T, data string) recovery.Survivor {
	t.Helper()
	v, err := recovery.ReadSurvivor(data, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return v
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

func TestRestoreMakesAClusterOfOneAboveTheFloor(t *testing.T) {
	data, r := restored(t)
	if r.MinEpoch != uint64(now.UnixMilli()) || r.Node != "a" || r.BackupDir != "" || !clusterid.Supersedes(r.Cluster, r.FormerCluster) {
		t.Errorf("restored: %+v", r)
	}
	v := look(t, data)
	if v.Cluster != r.Cluster || v.Shards != 16 || v.Index != r.MinEpoch || len(v.Peers) != 1 || !v.Peers[0].Voter || !v.Peers[0].Here {
		t.Errorf("the directory holds %+v", v)
	}
	d, err := disk.Open(data, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if id, shards := d.Cluster(); id != r.Cluster || shards != 16 {
		t.Errorf("the directory belongs to %s with %d shards", id, shards)
	}
}

// The next entry has an index above the floor, and the server can write it without other servers.
func TestRecoveredServerGoesOnAboveTheFloor(t *testing.T) {
	data, _ := restored(t)
	r, err := recovery.Recover(recovery.Options{Data: data, Confirm: look(t, data).Cluster, Now: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if want := uint64(now.UnixMilli()) + ack.MinIndexGap; r.MinEpoch != want {
		t.Errorf("floor %d, want %d: the last known index and the least jump", r.MinEpoch, want)
	}
	if _, err = os.Stat(filepath.Join(r.BackupDir, "raft", "log.db")); err != nil {
		t.Errorf("the former log is not kept: %v", err)
	}
	d, err := disk.Open(data, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	stores, err := d.OpenStores(disk.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id := consensus.ServerID(d.Node(), d.Disk())
	f := &fsm{}
	nobody := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody is there") }
	raft, err := consensus.Open(consensus.Options{
		ID: id, Stream: consensus.NewStream(id, nobody), FSM: f, Stores: stores,
		HeartbeatTimeout: 50 * time.Millisecond, ElectionTimeout: 50 * time.Millisecond, LeaderLease: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raft.Shutdown(t.Context()) }()
	for !raft.IsLeader() {
		<-raft.Changed()
	}
	index, err := raft.ApplyIndex([]byte("x"))
	if err != nil || index <= r.MinEpoch {
		t.Errorf("the next entry has index %d, %v, want one above %d", index, err, r.MinEpoch)
	}
	if f.restored == nil || raft.StartedEmpty() {
		t.Errorf("the state was not restored, fresh %v", raft.StartedEmpty())
	}
}

// fsm records the state that it restores.
type fsm struct{ restored []byte }

func (f *fsm) Apply(uint64, uint64, []byte) any { return nil }
func (f *fsm) Snapshot() ([]byte, error)        { return f.restored, nil }
func (f *fsm) Restore(b []byte) error           { f.restored = b; return nil }

// An operator can raise the floor, because the clock may be wrong, and two restores of one backup do not know of each other.
func TestOperatorRaisesTheFloor(t *testing.T) {
	high := uint64(1) << 60
	r, err := recovery.Restore(recovery.Options{Data: t.TempDir(), Node: "a", Now: time.Unix(0, 0), MinEpoch: high}, backup(t))
	if err != nil || r.MinEpoch != high+1 {
		t.Errorf("floor %d, %v, want %d", r.MinEpoch, err, high+1)
	}
	r, err = recovery.Restore(recovery.Options{Data: t.TempDir(), Node: "a", Now: time.Unix(0, 0)}, backup(t))
	if err != nil || r.MinEpoch != 2+ack.MinIndexGap {
		t.Errorf("floor %d, %v, want %d", r.MinEpoch, err, uint64(2+ack.MinIndexGap))
	}
}

func TestRecoverWantsTheClusterNamed(t *testing.T) {
	data, r := restored(t)
	_, err := recovery.Recover(recovery.Options{Data: data})
	wantError(t, err, r.Cluster, "--confirm")
	if !errors.Is(err, recovery.ErrUnconfirmed) {
		t.Errorf("error %v, want ErrUnconfirmed", err)
	}
	if v := look(t, data); v.Cluster != r.Cluster {
		t.Errorf("cluster %s after a refusal, want %s", v.Cluster, r.Cluster)
	}
	// The same command line has no effect a second time.
	if _, err = recovery.Recover(recovery.Options{Data: data, Confirm: r.Cluster}); err != nil {
		t.Fatal(err)
	}
	_, err = recovery.Recover(recovery.Options{Data: data, Confirm: r.Cluster})
	wantError(t, err, "--confirm")
}

func TestRecoverRefusesWhileOthersAnswer(t *testing.T) {
	data, r := restored(t)
	lines := "alive: a 10.0.0.1:7946\nalive: b 10.0.0.2:7946\nnot-alive: b\nclock: 7\n"
	if err := os.WriteFile(filepath.Join(data, "gossip"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	o := recovery.Options{Data: data, Confirm: r.Cluster, Reachable: func(addr string) bool { return addr == "10.0.0.2:7946" }}
	_, err := recovery.Recover(o)
	wantError(t, err, `"b"`, "10.0.0.2:7946")
	o.Reachable = func(addr string) bool { return addr == "10.0.0.1:7946" } // its own address is not another node
	if _, err = recovery.Recover(o); err != nil {
		t.Error(err)
	}
}

func TestNothingToRecoverIsRefused(t *testing.T) {
	_, err := recovery.ReadSurvivor(filepath.Join(t.TempDir(), "none"), zerolog.Nop())
	wantError(t, err, "does not exist", "--data")
	_, err = recovery.ReadSurvivor(t.TempDir(), zerolog.Nop())
	wantError(t, err, "belongs to no cluster")
	data, _ := restored(t)
	_, err = recovery.Restore(recovery.Options{Data: data}, backup(t))
	wantError(t, err, "in use by a cluster already")
	_, err = recovery.Restore(recovery.Options{Data: t.TempDir()}, []byte("x"))
	wantError(t, err, "not a backup")
}

// A crash at any step leaves a directory with which no node starts, and which the same command completes.
func TestInterruptedRecoveryIsFinishedByTheSameCommand(t *testing.T) {
	for _, step := range []string{"marked", "moved", "half made", "made"} {
		t.Run(step, func(t *testing.T) {
			data, r := restored(t)
			in := func(name string) string { return filepath.Join(data, name) }
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(os.WriteFile(in("bootstrap.json"), []byte(`{"format":1,"from":"before-7"}`), 0o600))
			must(os.Mkdir(in("before-7"), 0o700))
			if step != "marked" {
				must(os.Remove(in("raft.json")))
				must(os.Rename(in("raft"), in("before-7/raft")))
			}
			if step == "half made" || step == "made" {
				must(os.Mkdir(in("raft"), 0o700))
				must(os.WriteFile(in("raft/log.db"), []byte("half"), 0o600))
			}
			if step == "made" {
				must(os.WriteFile(in("raft.json"), []byte(`{"format":1}`), 0o600))
				must(os.WriteFile(in("cluster.json"), []byte(`{"format":1,"cluster":"new","shards":16}`), 0o600))
			}
			_, err := disk.Open(data, "")
			wantError(t, err, "interrupted", "shardway recover")
			if v := look(t, data); v.Cluster != r.Cluster {
				t.Errorf("the log from before is of cluster %s, want %s", v.Cluster, r.Cluster)
			}
			n, err := recovery.Recover(recovery.Options{Data: data, Confirm: r.Cluster})
			must(err)
			if n.BackupDir != in("before-7") {
				t.Errorf("kept %q", n.BackupDir)
			}
			if v := look(t, data); v.Cluster != n.Cluster || v.Index != n.MinEpoch {
				t.Errorf("the directory holds %+v, want what was made: %+v", v, n)
			}
		})
	}
}

// The directory that recover moved aside is complete and unchanged.
func TestRecoverCanBeUndone(t *testing.T) {
	data, r := restored(t)
	n, err := recovery.Recover(recovery.Options{Data: data, Confirm: r.Cluster})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"raft", "raft.json", "identity.json", "cluster.json"} {
		if err = errors.Join(os.RemoveAll(filepath.Join(data, name)), os.Rename(filepath.Join(n.BackupDir, name), filepath.Join(data, name))); err != nil {
			t.Fatal(err)
		}
	}
	if v := look(t, data); v.Cluster != r.Cluster || v.Index != r.MinEpoch {
		t.Errorf("undone: %+v", v)
	}
	d, err := disk.Open(data, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if id, _ := d.Cluster(); id != r.Cluster {
		t.Errorf("undone: the directory belongs to %s, want %s", id, r.Cluster)
	}
}

// A superseded directory stays refused, whichever nodes are visible later. It can still be recovered, in case the other disk is lost too.
func TestSupersededDirectoryIsRefusedUntilRecovered(t *testing.T) {
	data, r := restored(t)
	d, err := disk.Open(data, "")
	if err != nil {
		t.Fatal(err)
	}
	by := clusterid.Recovered(r.Cluster, r.MinEpoch+ack.MinIndexGap)
	if err = errors.Join(d.MarkSuperseded(by), d.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err = disk.Open(data, "")
		wantError(t, err, by, r.Cluster, "are no longer valid", "empty directory")
	}
	if _, err = recovery.Recover(recovery.Options{Data: data, Confirm: r.Cluster}); err != nil {
		t.Fatal(err)
	}
	if d, err = disk.Open(data, ""); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
