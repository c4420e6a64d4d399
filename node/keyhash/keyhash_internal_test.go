package keyhash

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/internal/secret"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

// The hashes of one key are equal on all nodes of a cluster, and differ between two clusters. Hashes that depend on a secret change with
// it.
func TestHashKeyIsTheClusters(t *testing.T) {
	now := time.Now()
	first, second := secret.Generate(now), secret.Generate(now.Add(time.Second))
	of := func(l secret.List, cluster string) []byte {
		k, err := deriveHashKey(l, cluster)
		if err != nil {
			t.Fatal(err)
		}
		return k.key
	}
	with := func(l ...secret.Secret) []byte { return of(l, "cluster") }
	if a, b := with(first), with(first); len(a) != 32 || !bytes.Equal(a, b) {
		t.Errorf("one secret, two keys: %x %x", a, b)
	}
	if bytes.Equal(with(first), with(second)) || bytes.Equal(with(first), with()) {
		t.Error("two secrets have one key")
	}
	// Accepting a further secret changes nothing; using it does.
	if !bytes.Equal(with(first, second), with(first)) || !bytes.Equal(with(second, first), with(second)) {
		t.Error("the key is not that of the secret in use")
	}
	if a, b := of(nil, "a"), of(nil, "b"); len(a) != 32 || bytes.Equal(a, b) {
		t.Errorf("clusters without a secret have the keys %x %x", a, b)
	}
}

// A node does not start if the crypto library refuses to derive the hash key. Once, the first line of the access log ended the process in
// that case. The test needs its own process, because the FIPS mode applies to a whole process. In that mode no key is derived from a short
// id such as "c", which no version of this program generates, and a key is derived on a node without a cluster.
func TestNodeDoesNotStartWhereCryptoRefusesTheHashKey(t *testing.T) {
	if os.Getenv("SHARDWAY_TEST_FIPS") == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), "GODEBUG=fips140=only", "SHARDWAY_TEST_FIPS=1")
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS")) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if _, err := New(ofCluster("c")); err == nil || !strings.Contains(err.Error(), "key_hash") || !strings.Contains(err.Error(), "--secret-file") {
		t.Errorf("New() = %v, want an error that says what to do", err)
	}
	cluster := ""
	h, err := New(Options{Cluster: func() string { return cluster }, Shards: 8, State: ack.NewState})
	if err != nil {
		t.Errorf("without a cluster: %v", err)
	}
	first := h.Key()
	cluster = "c"
	if got := h.Key(); len(got) != 32 || !bytes.Equal(got, first) {
		t.Errorf("a key that cannot be made: %x, want the one before", got)
	}
}

// While a secret is replaced, keys are recognized under both secrets. Otherwise a key in quarantine would be admitted for that time.
func TestKeysAreRecognizedUnderBothSecrets(t *testing.T) {
	now := time.Now()
	first, second := secret.Generate(now), secret.Generate(now.Add(time.Second))
	path := filepath.Join(t.TempDir(), "secret")
	if err := secret.WriteFile(path, secret.List{first, second}); err != nil {
		t.Fatal(err)
	}
	k, err := secret.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	o := ofCluster("5b0c0d4f7a9e1c33")
	o.Secrets = k
	keys := (&Hasher{options: o}).hashKeysByID()
	for _, s := range []secret.Secret{first, second} {
		if key := s.AccessKey(); !bytes.Equal(keys[keyID(key)], key) {
			t.Errorf("of %d keys none is that of %s", len(keys), s.Fingerprint())
		}
	}
	if alone := (&Hasher{options: ofCluster("5b0c0d4f7a9e1c33")}).hashKeysByID(); len(alone) != 1 || len(keys) != 2 {
		t.Errorf("%d keys without a secret and %d with two, want 1 and 2", len(alone), len(keys))
	}
}

// ofCluster returns the options of a hasher without secrets.
func ofCluster(cluster string) Options {
	return Options{Cluster: func() string { return cluster }, Shards: 8, State: ack.NewState}
}

// Equal keys of two services have different shards, in the range of their service. The list of quarantined keys shows
// their numbers within the service.
func TestKeysAreMarkedWithinTheirService(t *testing.T) {
	t.Parallel()
	o := ofCluster("5b0c0d4f7a9e1c33")
	state, _, err := ack.NewState().Apply(1, 1, ack.EncodeBootstrap("c", 12, ack.DefaultTiming(), ack.ServiceSpec{Name: "chat", Shards: 8}, ack.ServiceSpec{Name: "search", Shards: 4}))
	if err != nil {
		t.Fatal(err)
	}
	o.State = func() *ack.State { return state }
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	policy := &ack.Policy{Quarantined: map[ack.KeyFingerprint]ack.Quarantine{}}
	for service, first := range map[string]shardmap.Shard{"chat": 0, "search": 8} {
		sv, _ := state.Service(service)
		shard, hash, markErr := h.Mark(service, "tea")
		if want := first + shardmap.ShardOf("tea", sv.Shards); markErr != nil || shardmap.Shard(shard) != want || len(hash) != 16 {
			t.Errorf("%s: shard %d, hash %s, %v, want shard %d", service, shard, hash, markErr, want)
		}
		policy.Quarantined[ack.KeyFingerprint{Shard: shardmap.Shard(shard), Hash: shardkey.Hash(h.Key(), []byte("tea"))}] = ack.Quarantine{}
	}
	for _, service := range []string{"", "default", "mail"} {
		if _, _, err = h.Mark(service, "tea"); err == nil || !strings.Contains(err.Error(), "give one of chat, search") {
			t.Errorf("service %q: %v", service, err)
		}
	}
	listed := h.Quarantined(policy)
	for i, service := range []string{"chat", "search"} {
		sv, _ := state.Service(service)
		if got := listed[i]; got.Service != service || got.ServiceShard == nil || shardmap.Shard(*got.ServiceShard) != shardmap.ShardOf("tea", sv.Shards) {
			t.Errorf("listed: %+v", got)
		}
	}
	h, err = New(ofCluster("5b0c0d4f7a9e1c33"))
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range []string{"", "default"} {
		if shard, _, err := h.Mark(service, "tea"); err != nil || shardmap.Shard(shard) != shardmap.ShardOf("tea", 8) {
			t.Errorf("without services: %d, %v", shard, err)
		}
	}
	if listed = h.Quarantined(policy); listed[0].Service != "" || listed[0].ServiceShard != nil {
		t.Errorf("without services: %+v", listed[0])
	}
	if _, _, err := h.Mark("chat", "tea"); err == nil {
		t.Error("a cluster without services has chat")
	}
}
