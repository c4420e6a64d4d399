package shardmap_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"shardway/shardmap"
)

func encode(tb testing.TB, m *shardmap.Map) []byte {
	tb.Helper()
	b, err := m.MarshalBinary()
	if err != nil {
		tb.Fatalf("MarshalBinary: %v", err)
	}
	return b
}

// roundTrip checks that decoding the encoding of m returns m, including epochs.
func roundTrip(t *testing.T, m *shardmap.Map) {
	t.Helper()
	b := encode(t, m)
	got, err := shardmap.Decode(b)
	if err != nil {
		t.Fatalf("Decode(%x): %v", b, err)
	}
	if !got.HasSameOwners(m) || got.Epoch() != m.Epoch() || got.OrphanCount() != m.OrphanCount() {
		t.Fatalf("decoded a different map from %x", b)
	}
	for s := range shardmap.Shard(m.Len()) {
		if got.OwnedSince(s) != m.OwnedSince(s) {
			t.Fatalf("OwnedSince(%d) = %d, want %d", s, got.OwnedSince(s), m.OwnedSince(s))
		}
	}
	if got.Digest() != m.Digest() {
		t.Fatal("different digest after decoding")
	}
	checkConsistent(t, got)
}

func TestDecodeReturnsTheEncodedMap(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for range 100 {
		m := shardmap.New(1 + r.IntN(1<<r.IntN(12)))
		roundTrip(t, m)
		for range 10 {
			next := shardmap.Assign(m, randomMembers(r, 1+r.IntN(40)), shardmap.Policy{})
			roundTrip(t, next) // unsettled
			m = next.WithEpoch(m, m.Epoch()+1+shardmap.Epoch(r.Uint64N(1<<r.IntN(40))))
			roundTrip(t, m)
		}
	}
	members := manyNodes(shardmap.MaxMembers)
	big := assignNext(assignNext(shardmap.New(shardmap.MaxShards), members), members[:900])
	roundTrip(t, big.WithEpoch(big, 1<<64-1))
}

// Logs and snapshots contain encoded maps, so the encoding of a version must not change.
func TestEncodingIsStableAcrossVersions(t *testing.T) {
	m := assignNext(shardmap.New(8), equalMembers("a", "b"))
	m = shardmap.Assign(m, []shardmap.Member{{ID: "b", Weight: 2}, {ID: "c", Weight: 300}}, shardmap.Policy{}).WithEpoch(m, 300)
	const want = "01" + // version
		"ac02" + "08" + // epoch 300, 8 shards
		"02" + "016202" + "0163ac02" + // b with weight 2, c with 300
		"02" + "00ab02" + // two ownership epochs, 300 and 1
		"6aaa" + // c owns all but shard 3
		"08" // which b has had since epoch 1
	if got := hex.EncodeToString(encode(t, m)); got != want {
		t.Errorf("encoded %s, want %s", got, want)
	}
}

func TestEncodingIsCompact(t *testing.T) {
	tests := []struct {
		shards, members, changes, limit int
	}{
		{1024, 3, 1, 290},         // 2 bits each
		{1024, 3, 4, 290 + 300},   // and 2 for which of four epochs
		{65536, 100, 1, 58 << 10}, // 7 bits each
		{65536, 0, 1, 8},
	}
	for _, tt := range tests {
		m := shardmap.New(tt.shards)
		for i := range tt.changes {
			n := tt.members
			if i%2 == 1 {
				n-- // so that something moves
			}
			m = assignNext(m, nodes(n))
		}
		if n := len(encode(t, m)); n > tt.limit {
			t.Errorf("%d shards, %d members, %d changes: %d bytes, want at most %d", tt.shards, tt.members, tt.changes, n, tt.limit)
		}
	}
}

func TestDigestDiffersBetweenMaps(t *testing.T) {
	a := assignNext(shardmap.New(8), equalMembers("a", "b"))
	seen := map[[32]byte]string{}
	for name, m := range map[string]*shardmap.Map{
		"a":           a,
		"later epoch": a.WithEpoch(a, 2),
		"new owners":  a.WithEpoch(shardmap.New(8), 2),
		"no members":  shardmap.New(8),
		"unsettled":   shardmap.Assign(shardmap.New(8), equalMembers("a", "b"), shardmap.Policy{}),
		"more shards": assignNext(shardmap.New(9), equalMembers("a", "b")),
	} {
		if other, ok := seen[m.Digest()]; ok {
			t.Errorf("%q and %q have one digest", name, other)
		}
		seen[m.Digest()] = name
	}
}

// Each input differs from an encoded map in one respect only.
func TestDecodeRefusesInvalidInput(t *testing.T) {
	const ok = "01" + "05" + "04" + "02" + "016101" + "016201" + "02" + "0002" + "99" + "0c"
	if _, err := shardmap.Decode(unhex(t, ok)); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	long := hex.EncodeToString(bytes.Repeat([]byte("x"), 65))
	tests := []struct{ name, hex, want string }{
		{"empty", "", "ends within version"},
		{"other version", "03" + ok[2:], "version 3, this node supports 1 and 2"},
		{"version of instances without instances", "02" + "05" + "04" + "01" + "01610100" + "01" + "00" + "0f" + "00", "no instances"},
		{"first instance as a set", "02" + "05" + "04" + "01" + "01610101" + "01" + "00" + "0f" + "00", "not normalized"},
		{"largest instance too large", "02" + "05" + "04" + "01" + "01610103" + "01" + "00" + "0f" + "20", "largest instance above 31"},
		{"largest instance not used", "02" + "05" + "04" + "01" + "01610103" + "01" + "00" + "0f" + "02" + "55", "largest instance 1, the map says 2"},
		{"instances padded with ones", "02" + "05" + "04" + "01" + "01610103" + "01" + "00" + "0f" + "01" + "1a", "instances not padded"},
		{"ends within the instances", "02" + "05" + "04" + "01" + "01610103" + "01" + "00" + "0f" + "01", "ends within instances"},
		{"trailing byte", ok + "00", "1 bytes left over"},
		{"no shards", "01" + "05" + "00" + "00" + "00", "no shards"},
		{"too many shards", "01" + "05" + "818004" + "00" + "00", "shards above 65536"},
		{"too many members", "01" + "05" + "04" + "8108", "members above 1024"},
		{"number too long for 64 bits", "01" + "ffffffffffffffffff7f", "epoch above"},
		{"longer form than needed", "01" + "8500" + ok[4:], "longer form"},
		{"empty id", "01" + "05" + "04" + "01" + "00" + "01", "want 1 to 64"},
		{"long id", "01" + "05" + "04" + "01" + "41" + long + "01", "length of id above 64"},
		{"weight 0", "01" + "05" + "04" + "01" + "016100", "weight 0"},
		{"weight too large", "01" + "05" + "04" + "01" + "0161e907", "weight above 1000"},
		{"members not sorted", "01" + "05" + "04" + "02" + "016201" + "016101" + "02" + "0002" + "99" + "0c", "not after"},
		{"member twice", "01" + "05" + "04" + "02" + "016101" + "016101" + "02" + "0002" + "99" + "0c", "not after"},
		{"owner out of range", "01" + "05" + "04" + "02" + "016101" + "016201" + "02" + "0002" + "9b" + "0c", "owner 3 of shard 0"},
		{"epoch above the map's", "01" + "05" + "04" + "02" + "016101" + "016201" + "02" + "0006" + "99" + "0c", "distance of ownership epoch above 5"},
		{"epoch twice", "01" + "05" + "04" + "02" + "016101" + "016201" + "02" + "0000" + "99" + "0c", "twice"},
		{"epoch unused", "01" + "05" + "04" + "02" + "016101" + "016201" + "02" + "0002" + "99" + "00", "unused"},
		{"more epochs than shards", "01" + "05" + "04" + "02" + "016101" + "016201" + "05" + "0001010101" + "99" + "0c", "ownership epochs above 4"},
		{"no epoch for owners", "01" + "05" + "04" + "02" + "016101" + "016201" + "00" + "99", "0 ownership epochs"},
		{"epoch without owners", "01" + "05" + "04" + "02" + "016101" + "016201" + "01" + "00" + "00", "1 ownership epochs"},
		{"epoch index out of range", "01" + "05" + "04" + "02" + "016101" + "016201" + "03" + "000201" + "99" + "f0", "ownership epoch 3 of shard"},
		{"since padded with ones", "01" + "05" + "04" + "02" + "016101" + "016201" + "02" + "0002" + "99" + "1c", "since not padded"},
		{"owners padded with ones", "01" + "05" + "03" + "01" + "016101" + "01" + "00" + "0f", "owners not padded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := shardmap.Decode(unhex(t, tt.hex))
			if !errors.Is(err, shardmap.ErrCodec) || !strings.Contains(err.Error(), tt.want) || m != nil {
				t.Errorf("Decode = %v, %v, want an error with %q", m, err, tt.want)
			}
		})
	}
	for n := range len(ok) / 2 {
		if _, err := shardmap.Decode(unhex(t, ok)[:n]); !errors.Is(err, shardmap.ErrCodec) {
			t.Errorf("the first %d bytes: %v, want ErrCodec", n, err)
		}
	}
}

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// FuzzDecode checks that Decode never panics, and that each decoded map has only one encoding, so
// that a digest identifies a map.
func FuzzDecode(f *testing.F) {
	m := assignNext(shardmap.New(40), nodes(5))
	for i := range 4 {
		f.Add(encode(f, m))
		m = assignNext(m, nodes(i))
	}
	instances := []shardmap.Member{{ID: "a", Weight: 1, Instances: shardmap.InstancesUpTo(3)}, {ID: "b", Weight: 1, Instances: shardmap.InstanceSet(1 << 31)}, {ID: "c", Weight: 1}}
	withInstances := assignNext(shardmap.New(40), instances)
	f.Add(encode(f, withInstances))
	instances[0].Instances = shardmap.InstanceSet(1 << 1)
	f.Add(encode(f, assignNext(withInstances, instances)))
	f.Add(encode(f, assignNext(withInstances, nodes(3))))
	f.Add(encode(f, shardmap.New(shardmap.MaxShards)))
	f.Add(unhex(f, "0105040201610101620102000299"+"0c"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := shardmap.Decode(b)
		if err != nil {
			if m != nil || !errors.Is(err, shardmap.ErrCodec) {
				t.Fatalf("Decode = %v, %v", m, err)
			}
			return
		}
		if again := encode(t, m); !bytes.Equal(again, b) {
			t.Fatalf("two encodings of one map: %x and %x", b, again)
		}
		checkConsistent(t, m)
	})
}
