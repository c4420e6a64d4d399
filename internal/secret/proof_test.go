package secret_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"shardway/internal/secret"
)

func bindings(t *testing.T, l secret.List) (near, far []byte) {
	t.Helper()
	c, s, cerr, serr := meet(t, dialing(seal(t, l, "a"), "b"), accepting(seal(t, l, "b")))
	if cerr != nil || serr != nil {
		t.Fatal(cerr, serr)
	}
	near, err := sealed(t, c).Binding()
	if err != nil {
		t.Fatal(err)
	}
	if far, err = sealed(t, s).Binding(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// A proof counts for its secret, its stream, its direction and its message. Who
// stands in the middle, with certificates that both ends believe, has two
// streams and can pass nothing on.
func TestProofCountsForOneMessageOfOneStream(t *testing.T) {
	old, next, other := secret.Generate(time.Unix(1, 0)), secret.Generate(time.Unix(2, 0)), secret.Generate(time.Unix(3, 0))
	near, far := bindings(t, secret.List{old})
	between, _ := bindings(t, secret.List{old})
	if !bytes.Equal(near, far) || bytes.Equal(near, between) {
		t.Fatalf("bindings %x and %x of one stream, %x of another", near, far, between)
	}
	p := secret.List{old, next}.Prove(near, "ask", []byte("words"))
	mine := secret.List{other, next, old}
	if got := mine.VerifyProofs(p, far, "ask", []byte("words")); !got.Equal(secret.List{next, old}) {
		t.Errorf("Proven = %v, want the two that both have", got)
	}
	for name, got := range map[string]secret.List{
		"another stream":  mine.VerifyProofs(p, between, "ask", []byte("words")),
		"another role":    mine.VerifyProofs(p, far, "answer", []byte("words")),
		"another message": mine.VerifyProofs(p, far, "ask", []byte("word")),
		"a moved border":  mine.VerifyProofs(p, far, "askw", []byte("ords")),
		"no proof":        mine.VerifyProofs(nil, far, "ask", []byte("words")),
		"another's proof": mine.VerifyProofs(secret.Proofs{next.Fingerprint(): p[old.Fingerprint()]}, far, "ask", []byte("words")),
	} {
		if len(got) > 0 {
			t.Errorf("%s: Proven = %v, want none", name, got)
		}
	}
}

func TestWrappedIsForOneSecretOnOneStream(t *testing.T) {
	old, next := secret.Generate(time.Unix(1, 0)), secret.Generate(time.Unix(2, 0)).Rotated()
	near, far := bindings(t, secret.List{old})
	between, _ := bindings(t, secret.List{old})
	b, err := old.Wrap(near, []byte(next.Line()))
	if err != nil {
		t.Fatal(err)
	}
	line, err := old.Unwrap(far, b)
	if err != nil {
		t.Fatal(err)
	}
	if got, perr := secret.ParseLine(string(line)); perr != nil || !got.Equal(next) || !got.ByRotation() {
		t.Errorf("unwrapped %v, %v", got, perr)
	}
	if _, err = next.Unwrap(far, b); err == nil {
		t.Error("unwrapped by another secret")
	}
	if _, err = old.Unwrap(between, b); err == nil {
		t.Error("unwrapped on another stream")
	}
	if _, err = old.Wrap(nil, b); err == nil {
		t.Error("wrapped for no stream")
	}
	if _, err = old.Unwrap(far, nil); err == nil {
		t.Error("unwrapped nothing")
	}
}

// Each step of a rotation, asked for by who has the old secret alone, at each
// state that a node can be in: while it has the old one only, whoever has it is
// one of its own; from the moment that the new one is there, in use or not, the
// old one moves nothing.
func TestOldSecretMovesNothingOnceANewOneIsThere(t *testing.T) {
	old := secret.Generate(time.Unix(1e9, 0))
	next := secret.Generate(time.Unix(1.1e9, 0))
	forged := secret.Generate(time.Unix(1.2e9, 0)) // the thief's own, dated later
	thief := secret.List{old, forged}
	for _, l := range []secret.List{{old, next}, {next, old}, {next}} {
		k, _ := keeper(t, l)
		for name, err := range map[string]error{
			"install":          k.Install(forged, thief),
			"use of the old":   k.Use(old.Fingerprint(), thief),
			"use of the new":   k.Use(next.Fingerprint(), thief),
			"use of his own":   k.Use(forged.Fingerprint(), thief),
			"retire for old":   k.Retire(old.Fingerprint(), thief),
			"retire for new":   k.Retire(next.Fingerprint(), thief),
			"retire for his":   k.Retire(forged.Fingerprint(), thief),
			"install of older": k.Install(secret.Generate(time.Unix(1.05e9, 0)), secret.List{old, next}),
		} {
			if err == nil {
				t.Errorf("%v: %s was taken", l, name)
			}
		}
		if !k.List().Equal(l) {
			t.Errorf("%v became %v", l, k.List())
		}
	}
}

// A secret dated in the year 9999 counted as the newest for ever, and the one
// after it had a date that no node could read back.
func TestSecretOfTheFutureIsNotInstalled(t *testing.T) {
	k, _ := keeper(t, secret.List{secret.Generate(time.Unix(1e9, 0))})
	late := secret.Generate(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))
	if err := k.Install(late, k.List()); err == nil || !strings.Contains(err.Error(), "9999-12-31") || !strings.Contains(err.Error(), "clock") {
		t.Errorf("Install = %v, want its date refused", err)
	}
	if len(k.List()) != 1 {
		t.Errorf("it is there: %v", k.List())
	}
}

// What a person wrote into the file a moment ago is not overwritten by a step
// that comes before the node has looked.
func TestStepSeesTheFileAsItIs(t *testing.T) {
	old, byHand := secret.Generate(time.Unix(1e9, 0)), secret.Generate(time.Unix(1.1e9, 0))
	k, path := keeper(t, secret.List{old})
	if err := secret.WriteFile(path, secret.List{old, byHand}); err != nil {
		t.Fatal(err)
	}
	if err := k.Install(secret.Generate(time.Unix(1.2e9, 0)), secret.List{old}); err == nil {
		t.Error("installed by the old secret beside a newer one")
	}
	if got, err := secret.ReadFile(path); err != nil || !got.Equal(secret.List{old, byHand}) {
		t.Errorf("the file holds %v, %v", got, err)
	}
	if changed, err := k.Reload(); err != nil || !changed {
		t.Errorf("Reload = %v, %v, want the change reported", changed, err)
	}
}
