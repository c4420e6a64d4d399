package node_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/internal/secret"
	"shardway/internal/simnet"
	"shardway/peer"
)

// attacker has a secret of the cluster, or a node's key, and the program's source.
type attacker struct {
	w     *world
	host  *simnet.Host
	has   secret.List        // what he shows
	seal  *secret.TLSWrapper // what he dials with
	heard []string           // every byte that he got
}

// as dials a node under another one's id and asks what he likes.
func (th *attacker) as(id string, to *process, what string, words any) error {
	c, err := th.dial(id, to)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return th.ask(c, what, words)
}

func (th *attacker) dial(id string, to *process) (*peer.Conn, error) {
	cluster := th.w.leader().node.State().ClusterID()
	port := peer.New(peer.Options{
		Node: id, Cluster: func() string { return cluster }, Dial: th.host.Dial, WrapClient: th.seal.Client,
		Lookup: func(string) (string, bool) { return to.host.Addr(7947), true },
	})
	return port.Dial(th.w.t.Context(), to.name, peer.Control)
}

// ask asks on a stream, with the evidence for what he has, and without.
func (th *attacker) ask(c *peer.Conn, what string, words any) error {
	sealed, ok := c.NetConn().(*secret.Conn)
	if !ok {
		return errors.New("no TLS")
	}
	binding, err := sealed.Binding()
	if err != nil {
		return err
	}
	body, err := json.Marshal(words)
	if err != nil {
		return err
	}
	b, err := json.Marshal(map[string]any{"what": what, "secret": words, "proven": map[string]any{
		"body": body, "proofs": th.has.Prove(binding, "ask "+what, body),
	}})
	if err != nil {
		return err
	}
	if err = peer.WriteFrame(c, b); err != nil {
		return err
	}
	if b, err = peer.ReadFrame(c, nil, 1<<20); err != nil {
		return err
	}
	th.heard = append(th.heard, string(b))
	var r struct {
		Error string `json:"error"`
		Value struct {
			Body []byte `json:"body"`
		} `json:"value"`
	}
	if err = json.Unmarshal(b, &r); err != nil {
		return err
	}
	if th.heard = append(th.heard, string(r.Value.Body)); r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}

// everything asks a node for each step, under another node's id, and returns
// what was done that changes secrets.
func (th *attacker) everything(id string, to *process, old, next, own secret.Secret) (done []string) {
	step := func(do string, s secret.Secret) map[string]any {
		return map[string]any{"do": do, "fingerprint": s.Fingerprint()}
	}
	for name, words := range map[string]any{
		"use old": step("use", old), "use new": step("use", next), "use own": step("use", own),
		"retire for old": step("retire", old), "retire for new": step("retire", next), "retire for own": step("retire", own),
		"give": step("give", next), "show": step("show", next), "plain install": map[string]any{"do": "install", "line": own.Line()},
	} {
		if err := th.as(id, to, "secret", words); err == nil && name != "show" {
			done = append(done, name)
		}
	}
	if err := th.install(id, to, old, own); err == nil {
		done = append(done, "install")
	}
	if err := th.as(id, to, "rotate", "a thief"); err == nil {
		done = append(done, "rotate")
	}
	return done
}

// install forges the step that brings a secret of his own, wrapped by the old.
func (th *attacker) install(id string, to *process, old, own secret.Secret) error {
	c, err := th.dial(id, to)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	sealed, ok := c.NetConn().(*secret.Conn)
	if !ok {
		return errors.New("no TLS")
	}
	binding, err := sealed.Binding()
	if err != nil {
		return err
	}
	wrapped, err := old.Wrap(binding, []byte(own.Line()))
	if err != nil {
		return err
	}
	return th.ask(c, "secret", map[string]any{"do": "install", "fingerprint": own.Fingerprint(), "by": old.Fingerprint(), "wrapped": wrapped})
}

// byHand writes a node's file as a person does, and has the node look.
func (v *vault) byHand(name string, l secret.List) {
	v.w.t.Helper()
	if err := secret.WriteFile(filepath.Join(v.dir, name), l); err != nil {
		v.w.t.Fatal(err)
	}
	if _, err := v.files[name].Reload(); err != nil {
		v.w.t.Fatal(err)
	}
}

// serving reports a lease of these nodes that lapses within the time.
func (w *world) serving(d time.Duration, names ...string) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		w.check()
		for _, name := range names {
			if !w.all[name].node.Leased() {
				w.t.Fatalf("%s has no lease", name)
			}
		}
	}
}

// An attacker has the old secret and a node in the cluster. At each step of a manual rotation, the
// attacker requests the new secret, installs another one, uses and retires secrets, and requests a
// rotation from the leader. Once, the request "give" returned the new secret to the attacker, and a
// requested rotation installed it on the node of the attacker.
func TestManualRotationExcludesAttacker(t *testing.T) {
	next := secret.Generate(time.Unix(9.2e8, 0))
	own := secret.Generate(time.Unix(9.3e8, 0)).Rotated()
	sealed(t, func(w *world, v *vault) {
		t := w.t
		v.three()
		old := v.files["a"].List()[0]
		w.start("mallory")
		w.untilSettled("a", "b", "c", "mallory")
		// The attacker uses a certificate of the old secret, and accepts any certificate of a peer.
		trust, err := secret.Derive(secret.List{old, next}, "b")
		if err != nil {
			t.Fatal(err)
		}
		th := &attacker{w: w, host: w.net.Host("thief"), has: secret.List{old, own}, seal: secret.NewTLSWrapper(trust)}
		real := []string{"a", "b", "c"}
		o, on, no, n := secret.List{old}, secret.List{old, next}, secret.List{next, old}, secret.List{next}
		for _, moment := range [][]secret.List{{on, o, o}, {on, on, o}, {on, on, on}, {no, on, on}, {no, no, on}, {no, no, no}, {n, no, no}, {n, n, no}, {n, n, n}} {
			for i, name := range real {
				v.byHand(name, moment[i])
			}
			held, err := th.dial("b", w.all["a"]) // a stream from before goes on for a while
			for i, name := range real {
				if !moment[i].Has(next) {
					continue // here whoever has the old one is one of them
				}
				if done := th.everything("b", w.all[name], old, next, own); len(done) > 0 {
					t.Errorf("%v: node %s takes from a thief: %v", moment, name, done)
				}
			}
			if err == nil {
				if th.ask(held, "secret", map[string]any{"do": "show"}) == nil && moment[0].Equal(n) {
					t.Errorf("%v: a stream of the old secret is answered", moment)
				}
				_ = held.Close()
			}
			// The person at the admin port may be in a hurry.
			if _, err := w.leader().node.Rotate(t.Context(), "the test"); !errors.Is(err, api.ErrRefused) {
				t.Errorf("%v: Rotate = %v, want it refused as mallory has not the new one", moment, err)
			}
			for i, name := range real {
				if moment[i].Has(next) && !v.files[name].List().Equal(moment[i]) {
					t.Errorf("%v: node %s has %v", moment, name, v.files[name].List())
				}
			}
			w.serving(100*time.Millisecond, real...)
		}
		line, _, _ := strings.Cut(next.Line(), " ")
		if v.files["mallory"].List().Has(next) || strings.Contains(strings.Join(th.heard, "\n"), line) {
			t.Errorf("the thief has the new secret")
		}
		// He is at every door all the while: the race detector makes handshakes dear, so
		// that the storms of make test, without it, have the whole of it.
		w.serving(2*secret.Grace/time.Duration(share(1, 20)), real...)
		if c, err := th.dial("b", w.all["a"]); err == nil {
			_ = c.Close()
			t.Error("the old secret still opens a stream")
		}
		w.all["mallory"].kill()
		w.untilSettled(real...)
	})
}

// The attacker joins while the command runs. A new secret is sent only to a peer that has the current
// secret. As soon as the new secret is in use, the old one is no longer current.
func TestAttackerGetsNoSecretOnceItIsUsed(t *testing.T) {
	next := secret.Generate(time.Unix(9.2e8, 0)).Rotated()
	sealed(t, func(w *world, v *vault) {
		t := w.t
		v.three()
		old := v.files["a"].List()[0]
		w.start("mallory")
		w.untilSettled("a", "b", "c", "mallory")
		for _, name := range []string{"a", "b", "c"} {
			v.byHand(name, secret.List{old, next})
		}
		v.byHand("b", secret.List{next, old})
		_, err := w.leader().node.Rotate(t.Context(), "the test")
		if !errors.Is(err, api.ErrRefused) || !strings.Contains(err.Error(), "no longer sent to others") || !strings.Contains(err.Error(), "mallory") {
			t.Errorf("Rotate = %v, want it to name mallory, and why it gets nothing", err)
		}
		if v.files["mallory"].List().Has(next) {
			t.Error("the thief has the new secret")
		}
	})
}

// A rotation by hand goes on when the person says so, not when a thief asks the
// leader for it.
func TestAttackerBeginsNoRotation(t *testing.T) {
	next := secret.Generate(time.Unix(9.2e8, 0))
	sealed(t, func(w *world, v *vault) {
		t := w.t
		v.three()
		old := v.files["a"].List()[0]
		both := secret.List{old, next}
		for name := range v.files {
			v.byHand(name, both)
		}
		trust, err := secret.Derive(secret.List{old}, "b")
		if err != nil {
			t.Fatal(err)
		}
		th := &attacker{w: w, host: w.net.Host("thief"), has: secret.List{old}, seal: secret.NewTLSWrapper(trust)}
		if err = th.as("b", w.leader(), "rotate", "a thief"); err == nil || !strings.Contains(err.Error(), "newest secret") {
			t.Errorf("a thief asks for a rotation: %v, want it refused", err)
		}
		for name, k := range v.files {
			if !k.List().Equal(both) {
				t.Errorf("%s has %v", name, k.List())
			}
		}
		if _, err = w.follower().node.Rotate(t.Context(), "the test"); err != nil {
			t.Errorf("the person may: %v", err)
		}
	})
}

// A thief who leads says that the rotation is done, when the person asks a node
// that is one of us.
func TestRotationReportOfAttackingLeaderIsNotTrusted(t *testing.T) {
	next := secret.Generate(time.Unix(9.2e8, 0))
	sealed(t, func(w *world, v *vault) {
		t := w.t
		v.three()
		old := v.files["a"].List()[0]
		for name := range v.files {
			v.byHand(name, secret.List{old, next})
		}
		leader, follower := w.leader(), w.follower()
		trust, err := secret.Derive(secret.List{old, next}, leader.name)
		if err != nil {
			t.Fatal(err)
		}
		leader.kill()
		heard := impostor(t, leader, secret.NewTLSWrapper(trust), secret.List{old}, api.Rotation{Secret: next.Fingerprint(), Nodes: []string{"a", "b", "c"}})
		r, err := follower.node.Rotate(t.Context(), "the test")
		if err == nil || !strings.Contains(err.Error(), "does not have the newest secret") {
			t.Errorf("Rotate = %+v, %v, want the thief's word refused", r, err)
		}
		if len(heard) == 0 {
			t.Error("the impostor was not asked: the test shows nothing")
		}
	})
}

// A leader that lacks the newest secret asks nobody for it, and says who has it.
func TestLeaderWithoutTheNewSecretNamesNodesThatHaveIt(t *testing.T) {
	next := secret.Generate(time.Unix(9.2e8, 0)).Rotated()
	sealed(t, func(w *world, v *vault) {
		t := w.t
		v.three()
		p := w.follower()
		v.byHand(p.name, secret.List{v.files["a"].List()[0], next})
		_, err := w.leader().node.Rotate(t.Context(), "the test")
		if !errors.Is(err, api.ErrRefused) || !strings.Contains(err.Error(), "only "+p.name+" has it") {
			t.Errorf("Rotate = %v, want it to name %s", err, p.name)
		}
		for name, k := range v.files {
			if k.List().Has(next) != (name == p.name) {
				t.Errorf("%s has %v", name, k.List())
			}
		}
		// Asked through the one that has it, the leader says the same.
		if _, err := p.node.Rotate(t.Context(), "the test"); err == nil || !strings.Contains(err.Error(), "only "+p.name+" has it") {
			t.Errorf("Rotate = %v, want it to name %s", err, p.name)
		}
	})
}
