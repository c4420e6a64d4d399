package node

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"shardway/admin"
	"shardway/internal/secret"
)

// FuzzControl: a question that another process asks is read and, where it is
// about secrets, answered without a crash; what a node tells of them never holds
// more than was asked for.
func FuzzControl(f *testing.F) {
	known := secret.Generate(time.Unix(9e8, 0))
	next := secret.Generate(time.Unix(1e9, 0))
	for _, q := range []request{
		{What: askDo, Action: admin.Action{Verb: admin.Remove, Node: "c", Force: true, By: "x"}},
		{What: askSecret, Secret: secretStep{Do: secretInstall, Line: next.Line()}},
		{What: askSecret, Secret: secretStep{Do: secretUse, Fingerprint: known.Fingerprint()}},
		{What: askSecret, Secret: secretStep{Do: secretRetire, Fingerprint: known.Fingerprint()}},
		{What: askSecret, Secret: secretStep{Do: secretGive, Fingerprint: known.Fingerprint()}},
		{What: askRotate, By: "x"},
		{What: askLeave, Server: "a/d"},
	} {
		b, err := json.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"what":"secret","secret":{"do":"install","line":"sw1_"}}`))
	f.Add([]byte(`{"what":1}`))
	path := filepath.Join(f.TempDir(), "secret")
	f.Fuzz(func(t *testing.T, b []byte) {
		var q request
		if err := json.Unmarshal(b, &q); err != nil || q.What != askSecret {
			return
		}
		if err := secret.WriteFile(path, secret.List{known}); err != nil {
			t.Fatal(err)
		}
		k, err := secret.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		n := &Node{o: Options{Secrets: k}}
		state, err := n.secretStep("x", q.Secret)
		if state.Line != "" && q.Secret.Do != secretGive {
			t.Fatalf("%s gives a secret away", b)
		}
		if len(k.List()) == 0 || errors.Is(err, errNoSecrets) {
			t.Fatalf("%s takes the secrets away", b)
		}
	})
}
