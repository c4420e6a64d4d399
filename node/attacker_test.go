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

// attacker has a secret of the cluster, or the key of a node, and the source code of the program.
type attacker struct {
	w     *world
	host  *simnet.Host
	has   secret.List        // the secrets that it proves to have
	seal  *secret.TLSWrapper // the TLS configuration with which it dials
	heard []string           // all bytes that it received
}

// as dials a node under the id of another node and sends one request.
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

// ask sends a request on a stream, with the evidence for the attacker's secrets and without it.
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

// everything sends a node the request of each step, under the id of another node. It returns the requests that changed secrets.
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

// install forges the step that installs the attacker's own secret, wrapped with the old one.
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

// byHand writes the secret file of a node, as an operator does, and makes the node read it.
func (v *vault) byHand(name string, l secret.List) {
	v.w.t.Helper()
	if err := secret.WriteFile(filepath.Join(v.dir, name), l); err != nil {
		v.w.t.Fatal(err)
	}
	if _, err := v.files[name].Reload(); err != nil {
		v.w.t.Fatal(err)
	}
}

// serving lets time pass, and fails if the lease of one of these nodes expires in the meantime.
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
			held, err := th.dial("b", w.all["a"]) // a stream that was opened earlier stays open for a while
			for i, name := range real {
				if !moment[i].Has(next) {
					continue // in this step, every holder of the old secret is a member
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
			// An operator at the admin port may start too early.
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
		// The attacker sends requests all the time. Handshakes are expensive under the race detector, so only the storms of make test,
		// which run without it, cover the whole period.
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

// Only an operator can continue a manual rotation; a request of the attacker to the leader does not.
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

// An attacker that leads reports a finished rotation. A node that is not under its control does not pass that report on to the operator.
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

// A leader that lacks the newest secret requests it from no node, and names the nodes that have it.
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
		// The leader returns the same error to a request that the node with the secret forwards.
		if _, err := p.node.Rotate(t.Context(), "the test"); err == nil || !strings.Contains(err.Error(), "only "+p.name+" has it") {
			t.Errorf("Rotate = %v, want it to name %s", err, p.name)
		}
	})
}
