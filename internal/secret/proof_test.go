package secret_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"shardway/internal/secret"
)

func connectedBindings(t *testing.T, l secret.List) (client, server []byte) {
	t.Helper()
	c, s, clientErr, serverErr := connect(t, dialTo(newWrapper(t, l, "a"), "b"), accept(newWrapper(t, l, "b")))
	if clientErr != nil || serverErr != nil {
		t.Fatal(clientErr, serverErr)
	}
	client, err := secretConn(t, c).Binding()
	if err != nil {
		t.Fatal(err)
	}
	if server, err = secretConn(t, s).Binding(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// A proof is bound to its secret, stream, direction and message. A man in the middle has
// two streams, even with certificates that both ends accept, and cannot forward a proof.
func TestProofIsValidForOneMessageOnOneStream(t *testing.T) {
	old, next, other := secret.Generate(time.Unix(1, 0)), secret.Generate(time.Unix(2, 0)), secret.Generate(time.Unix(3, 0))
	near, far := connectedBindings(t, secret.List{old})
	otherStream, _ := connectedBindings(t, secret.List{old})
	if !bytes.Equal(near, far) || bytes.Equal(near, otherStream) {
		t.Fatalf("bindings %x and %x of one stream, %x of another", near, far, otherStream)
	}
	p := secret.List{old, next}.Prove(near, "ask", []byte("words"))
	mine := secret.List{other, next, old}
	if got := mine.VerifyProofs(p, far, "ask", []byte("words")); !got.Equal(secret.List{next, old}) {
		t.Errorf("Proven = %v, want the two common secrets", got)
	}
	for name, got := range map[string]secret.List{
		"another stream":              mine.VerifyProofs(p, otherStream, "ask", []byte("words")),
		"another role":                mine.VerifyProofs(p, far, "answer", []byte("words")),
		"another message":             mine.VerifyProofs(p, far, "ask", []byte("word")),
		"a shifted boundary":          mine.VerifyProofs(p, far, "askw", []byte("ords")),
		"no proof":                    mine.VerifyProofs(nil, far, "ask", []byte("words")),
		"the proof of another secret": mine.VerifyProofs(secret.Proofs{next.Fingerprint(): p[old.Fingerprint()]}, far, "ask", []byte("words")),
	} {
		if len(got) > 0 {
			t.Errorf("%s: Proven = %v, want none", name, got)
		}
	}
}

func TestUnwrapNeedsSameSecretAndStream(t *testing.T) {
	old, next := secret.Generate(time.Unix(1, 0)), secret.Generate(time.Unix(2, 0)).Rotated()
	near, far := connectedBindings(t, secret.List{old})
	otherStream, _ := connectedBindings(t, secret.List{old})
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
		t.Error("Unwrap succeeded with another secret")
	}
	if _, err = old.Unwrap(otherStream, b); err == nil {
		t.Error("Unwrap succeeded on another stream")
	}
	if _, err = old.Wrap(nil, b); err == nil {
		t.Error("Wrap succeeded without a binding")
	}
	if _, err = old.Unwrap(far, nil); err == nil {
		t.Error("Unwrap of empty input succeeded")
	}
}

// An attacker who has only the old secret requests every rotation step, in every state of a
// node that has the new secret, used or not. No step may succeed. (A node with only the old
// secret cannot tell such an attacker from a member.)
func TestOldSecretCannotChangeStoreWithNewerOne(t *testing.T) {
	old := secret.Generate(time.Unix(1e9, 0))
	next := secret.Generate(time.Unix(1.1e9, 0))
	attackerSecret := secret.Generate(time.Unix(1.2e9, 0)) // with a later creation time
	shown := secret.List{old, attackerSecret}
	for _, l := range []secret.List{{old, next}, {next, old}, {next}} {
		k, _ := newStore(t, l)
		for name, err := range map[string]error{
			"install":               k.Install(attackerSecret, shown),
			"use of the old":        k.Use(old.Fingerprint(), shown),
			"use of the new":        k.Use(next.Fingerprint(), shown),
			"use of attacker's":     k.Use(attackerSecret.Fingerprint(), shown),
			"retire for old":        k.Retire(old.Fingerprint(), shown),
			"retire for new":        k.Retire(next.Fingerprint(), shown),
			"retire for attacker's": k.Retire(attackerSecret.Fingerprint(), shown),
			"install of older":      k.Install(secret.Generate(time.Unix(1.05e9, 0)), secret.List{old, next}),
		} {
			if err == nil {
				t.Errorf("%v: %s succeeded", l, name)
			}
		}
		if !k.List().Equal(l) {
			t.Errorf("list %v changed to %v", l, k.List())
		}
	}
}

// A secret dated in the year 9999 would count as the newest one until then, and its
// successor would have a date that no node can parse.
func TestInstallRefusesSecretFromTheFuture(t *testing.T) {
	k, _ := newStore(t, secret.List{secret.Generate(time.Unix(1e9, 0))})
	late := secret.Generate(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))
	if err := k.Install(late, k.List()); err == nil || !strings.Contains(err.Error(), "9999-12-31") || !strings.Contains(err.Error(), "clock") {
		t.Errorf("Install = %v, want an error about its date", err)
	}
	if len(k.List()) != 1 {
		t.Errorf("the secret was installed: %v", k.List())
	}
}

// A rotation step must not overwrite an edit of the file that the node has not noticed yet.
func TestInstallReadsManualEditFirst(t *testing.T) {
	old, byHand := secret.Generate(time.Unix(1e9, 0)), secret.Generate(time.Unix(1.1e9, 0))
	k, path := newStore(t, secret.List{old})
	if err := secret.WriteFile(path, secret.List{old, byHand}); err != nil {
		t.Fatal(err)
	}
	if err := k.Install(secret.Generate(time.Unix(1.2e9, 0)), secret.List{old}); err == nil {
		t.Error("Install succeeded with proof of the old secret although the file has a newer one")
	}
	if got, err := secret.ReadFile(path); err != nil || !got.Equal(secret.List{old, byHand}) {
		t.Errorf("file contains %v, %v", got, err)
	}
	if changed, err := k.Reload(); err != nil || !changed {
		t.Errorf("Reload = %v, %v, want the change reported", changed, err)
	}
}
