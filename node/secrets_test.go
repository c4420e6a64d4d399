package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/internal/secret"
	"shardway/node"
	"shardway/peer"
	"shardway/shardmap"
)

// vault gives each node of a world its own secret file, as real nodes have, which outlives restarts.
type vault struct {
	w     *world
	dir   string
	first map[string]secret.List // secrets of nodes that do not start with common
	plain map[string]bool        // nodes without a secret
	files map[string]*secret.Store
}

// sealed runs f in a world whose nodes have one secret.
func sealed(t *testing.T, f func(w *world, v *vault)) {
	t.Helper()
	dir := t.TempDir()
	common := secret.List{secret.Generate(time.Unix(9e8, 0))}
	bubble(t, func(w *world) {
		v := &vault{w: w, dir: dir, first: map[string]secret.List{}, plain: map[string]bool{}, files: map[string]*secret.Store{}}
		w.tune = func(o *node.Options) { v.arm(o, common) }
		f(w, v)
	})
}

// arm gives one start of a node the secrets of its file.
func (v *vault) arm(o *node.Options, common secret.List) {
	name := o.Dir.Node()
	if v.plain[name] {
		return
	}
	path := filepath.Join(v.dir, name)
	k, err := secret.Open(path)
	if err != nil {
		l := common
		if own, ok := v.first[name]; ok {
			l = own
		}
		if err = secret.WriteFile(path, l); err == nil {
			k, err = secret.Open(path)
		}
	}
	if err != nil {
		v.w.t.Fatal(err)
	}
	trust, err := secret.Derive(k.List(), name)
	if err != nil {
		v.w.t.Fatal(err)
	}
	s := secret.NewTLSWrapper(trust)
	k.OnChange(func(l secret.List) error {
		next, err := secret.Derive(l, name)
		if err == nil {
			s.Replace(next)
		}
		return err
	})
	v.files[name] = k
	o.Secrets, o.WrapClient, o.WrapServer = k, s.Client, s.Server
}

func (v *vault) three() {
	v.w.t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		v.w.start(name)
	}
	v.w.untilSettled("a", "b", "c")
	v.w.untilVoters(3) // a test may kill one of them
}

// during runs f while the checks of the world run, and fails if a lease expires.
func (w *world) during(f func()) {
	w.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		w.check()
		for _, p := range w.running() {
			if w.committed().IsMember(shardmap.NodeID(p.name)) && !p.node.Leased() {
				w.t.Fatalf("%s has no lease", p.name)
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func TestClusterWithASecretSurvivesACrash(t *testing.T) {
	sealed(t, func(w *world, v *vault) {
		v.three()
		p := w.leader()
		p.kill()
		w.untilSettled(w.others(p)...)
		p.restart()
		w.untilSettled("a", "b", "c")
	})
}

func TestStrangersStayOut(t *testing.T) {
	for name, arm := range map[string]func(v *vault){
		"another secret": func(v *vault) { v.first["d"] = secret.List{secret.Generate(time.Unix(9e8, 0))} },
		"no secret":      func(v *vault) { v.plain["d"] = true },
	} {
		t.Run(name, func(t *testing.T) {
			sealed(t, func(w *world, v *vault) {
				t := w.t
				v.three()
				arm(v)
				w.start("d")
				d := w.all["d"]
				w.during(func() { time.Sleep(time.Duration(share(20, 6)) * time.Second) })
				if !w.settled("a", "b", "c") {
					t.Error("the stranger moved something")
				}
				err := d.node.API().Ready()
				if err == nil || !strings.Contains(err.Error(), "--secret-file") {
					t.Errorf("the stranger is told %v, want a word about --secret-file", err)
				}
			})
		})
	}
}

func TestRotationReplacesTheSecretEverywhere(t *testing.T) {
	sealed(t, func(w *world, v *vault) {
		t := w.t
		v.three()
		epoch := w.committed().Epoch()
		old := v.files["a"].List()[0]
		var r api.Rotation
		var err error
		w.during(func() { r, err = w.follower().node.Rotate(t.Context(), "the test") })
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Nodes, []string{"a", "b", "c"}) || r.Secret == old.Fingerprint() {
			t.Errorf("Rotate = %+v", r)
		}
		for name, k := range v.files {
			l, err := secret.ReadFile(filepath.Join(v.dir, name))
			if err != nil || len(l) != 1 || l[0].Fingerprint() != r.Secret || !l.Equal(k.List()) {
				t.Errorf("%s has %v in its file (%v) and %v in use, want %s alone", name, l, err, k.List(), r.Secret)
			}
		}
		// The time is longer than streams of the old secret live, and gossip continues too. Under the race detector, which makes handshakes
		// expensive, it is a tenth of that.
		w.during(func() { time.Sleep(2 * secret.Grace / time.Duration(share(1, 10))) })
		if got := w.committed().Epoch(); got != epoch {
			t.Errorf("the rotation moved something: epoch %d, was %d", got, epoch)
		}
		p := w.follower()
		p.kill()
		w.untilSettled(w.others(p)...)
		p.restart()
		w.untilSettled("a", "b", "c")
		v.first["d"] = secret.List{old}
		w.start("d")
		d := w.all["d"]
		w.during(func() { time.Sleep(10 * time.Second) })
		if err := d.node.API().Ready(); err == nil || !w.settled("a", "b", "c") {
			t.Errorf("the old secret still lets in: %v", err)
		}
	})
}

func TestRotationStopsAndNamesMissingNodes(t *testing.T) {
	sealed(t, func(w *world, v *vault) {
		t := w.t
		v.three()
		c := w.follower()
		before := v.files["a"].List()
		c.kill()
		w.untilSettled(w.others(c)...)
		_, err := w.leader().node.Rotate(t.Context(), "the test")
		if !errors.Is(err, api.ErrRefused) || !strings.Contains(err.Error(), "nothing was changed") || !strings.Contains(err.Error(), `node "`+c.name+`" is missing`) {
			t.Errorf("Rotate = %v, want it to name %s", err, c.name)
		}
		for name, k := range v.files {
			if !k.List().Equal(before) {
				t.Errorf("%s has %v", name, k.List())
			}
		}
		c.restart()
		w.untilSettled("a", "b", "c")
		if _, err := w.leader().node.Rotate(t.Context(), "the test"); err != nil {
			t.Errorf("with all back: %v", err)
		}
	})
}

// An interrupted rotation is continued by each leader that has the new secret: the files show the current step, and the newest secret shows
// the target.
func TestRotationIsTakenUpWhereItStopped(t *testing.T) {
	next := secret.Generate(time.Unix(9.1e8, 0))
	f := next.Fingerprint()
	for name, half := range map[string]func(leader, b, c *secret.Store) error{
		"installed on one": func(a, _, _ *secret.Store) error { return a.Install(next, a.List()) },
		"used by one": func(a, b, c *secret.Store) error {
			return errors.Join(a.Install(next, a.List()), b.Install(next, b.List()), c.Install(next, c.List()), b.Use(f, b.List()))
		},
		"retired on one": func(a, b, c *secret.Store) error {
			return errors.Join(a.Install(next, a.List()), b.Install(next, b.List()), c.Install(next, c.List()), a.Use(f, a.List()), b.Use(f, b.List()), c.Use(f, c.List()), c.Retire(f, c.List()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			sealed(t, func(w *world, v *vault) {
				t := w.t
				v.three()
				leader := w.leader()
				others := w.others(leader)
				if err := half(v.files[leader.name], v.files[others[0]], v.files[others[1]]); err != nil {
					t.Fatal(err)
				}
				r, err := w.leader().node.Rotate(t.Context(), "the test")
				if err != nil || r.Secret != f {
					t.Fatalf("Rotate = %+v, %v, want %s everywhere", r, err, f)
				}
				for name, k := range v.files {
					if !k.List().Equal(secret.List{next}) {
						t.Errorf("%s has %v", name, k.List())
					}
				}
			})
		})
	}
}

func TestOneRotationAtATime(t *testing.T) {
	sealed(t, func(w *world, v *vault) {
		t := w.t
		v.three()
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := w.leader().node.Rotate(t.Context(), "the test")
				errs <- err
			}()
		}
		a, b := <-errs, <-errs
		if err := errors.Join(a, b); (a == nil) == (b == nil) || !strings.Contains(err.Error(), "a rotation is running") {
			t.Errorf("two at once = %v, %v, want one refused", a, b)
		}
	})
}

func TestClusterWithoutASecretHasNoneToRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start("a")
		w.untilSettled("a")
		_, err := w.leader().node.Rotate(context.Background(), "the test")
		if !errors.Is(err, api.ErrRefused) || !strings.Contains(err.Error(), "--secret-file") {
			t.Errorf("Rotate = %v, want it refused", err)
		}
	})
}

// An authenticated member cannot send heartbeats for another node. It also cannot confirm the leader as the server of another node, or with
// another disk of its own.
func TestHeartbeatOfAnotherNodeDoesNotCount(t *testing.T) {
	sealed(t, func(w *world, v *vault) {
		t := w.t
		v.three()
		leader, liar := w.leader(), w.follower()
		victim := ""
		for _, name := range []string{"a", "b", "c"} {
			if name != leader.name && name != liar.name {
				victim = name
			}
		}
		trust, err := secret.Derive(v.files[liar.name].List(), liar.name)
		if err != nil {
			t.Fatal(err)
		}
		s := secret.NewTLSWrapper(trust)
		port := peer.New(peer.Options{
			Node: liar.name, Disk: "of-now", Cluster: func() string { return liar.node.State().ClusterID() }, Dial: liar.host.Dial, WrapClient: s.Client,
			Lookup: func(string) (string, bool) { return leader.host.Addr(7947), true },
		})
		before := w.committed().Epoch()
		for _, forged := range []ack.Heartbeat{
			{Node: shardmap.NodeID(victim), Server: victim + "/x", Goodbye: true},
			{Node: shardmap.NodeID(victim), Server: liar.name + "/of-now", Goodbye: true},
			{Node: shardmap.NodeID(liar.name), Server: victim + "/x"},
			{Node: shardmap.NodeID(liar.name), Server: liar.name + "/of-before"},
		} {
			forged.Boot, forged.Nonce, forged.Number, forged.Weight, forged.Term = 99, 1, 1, 1, leader.node.API().Status().Term
			v.unanswered(port, leader.name, encoded(t, forged))
		}
		own := ack.Heartbeat{Node: shardmap.NodeID(liar.name), Server: liar.name + "/of-now", Boot: 99, Nonce: 1, Number: 1, Weight: 1, Term: leader.node.API().Status().Term}
		cut := encoded(t, own)
		v.unanswered(port, leader.name, cut[:len(cut)-1])
		w.during(func() { time.Sleep(5 * time.Second) })
		if got := w.committed().Epoch(); got != before || !w.settled("a", "b", "c") {
			t.Errorf("the forged heartbeat moved something: epoch %d, was %d", got, before)
		}
	})
}

func encoded(t *testing.T, hb ack.Heartbeat) []byte {
	t.Helper()
	b, err := hb.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// unanswered sends a heartbeat that the leader must not accept.
func (v *vault) unanswered(from *peer.Port, leader string, b []byte) {
	v.w.t.Helper()
	c, err := from.Dial(v.w.t.Context(), leader, peer.Heartbeat)
	if err != nil {
		v.w.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err = peer.WriteFrame(c, b); err != nil {
		v.w.t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Second)) // simulated connections have deadlines
	if _, err = peer.ReadFrame(c, nil, ack.MaxMessage); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		v.w.t.Errorf("heartbeat %q was taken: %v", b, err)
	}
}
