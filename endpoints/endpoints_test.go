package endpoints_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"shardway/endpoints"
)

func TestDirectoryReturnsAddressesThatNodesAnnounce(t *testing.T) {
	addrs := map[string]string{endpoints.HTTP: "10.0.0.1:8080", "grpc": "10.0.0.1:9000"}
	d := endpoints.New([]endpoints.Entry{
		{ID: "b", Node: true, Addrs: map[string]string{endpoints.HTTP: "10.0.0.2:8080"}},
		{ID: "cache", Addrs: map[string]string{"redis": "10.0.0.9:6379"}},
		{ID: "a", Node: true, Addrs: addrs},
		{ID: "c", Node: true},
	})
	addrs["grpc"] = "changed afterwards"
	tests := []struct {
		node, name, want string
	}{
		{"a", endpoints.HTTP, "10.0.0.1:8080"},
		{"a", "grpc", "10.0.0.1:9000"},
		{"b", endpoints.HTTP, "10.0.0.2:8080"},
		{"b", "grpc", ""},
		{"c", endpoints.HTTP, ""},
		{"unknown", endpoints.HTTP, ""},
		{"cache", "redis", ""}, // not a node
	}
	for _, tt := range tests {
		if got, ok := d.Addr(tt.node, tt.name); got != tt.want || ok != (tt.want != "") {
			t.Errorf("Addr(%q, %q) = %q, %v, want %q", tt.node, tt.name, got, ok, tt.want)
		}
	}
	want := []endpoints.Endpoint{
		{ID: "a", IsNode: true, Name: "grpc", Addr: "10.0.0.1:9000"},
		{ID: "a", IsNode: true, Name: "http", Addr: "10.0.0.1:8080"},
		{ID: "b", IsNode: true, Name: "http", Addr: "10.0.0.2:8080"},
		{ID: "cache", Name: "redis", Addr: "10.0.0.9:6379"},
	}
	if got := d.All(); !slices.Equal(got, want) {
		t.Errorf("All() = %v, want %v", got, want)
	}
}

// Otherwise a gossip member could take over the traffic of a node by using its name.
func TestMemberCannotImpersonateANode(t *testing.T) {
	node := endpoints.Entry{ID: "a", Node: true, Addrs: map[string]string{endpoints.Peer: "10.0.0.1:7947"}}
	other := endpoints.Entry{ID: "a", Addrs: map[string]string{endpoints.Peer: "10.6.6.6:7947"}}
	for _, entries := range [][]endpoints.Entry{{node, other}, {other, node}} {
		d := endpoints.New(entries)
		if got, _ := d.Addr("a", endpoints.Peer); got != "10.0.0.1:7947" {
			t.Errorf("Addr = %q, want the address of the node", got)
		}
		if all := d.All(); len(all) != 2 || !all[0].IsNode || all[1].IsNode {
			t.Errorf("All() = %v, want the node, then the other member", all)
		}
	}
}

func TestLastEntryOfAnIDWins(t *testing.T) {
	d := endpoints.New([]endpoints.Entry{
		{ID: "a", Node: true, Addrs: map[string]string{"http": "10.0.0.1:1", "old": "10.0.0.1:2"}},
		{ID: "a", Node: true, Addrs: map[string]string{"http": "10.0.0.2:1"}},
	})
	if got := d.All(); len(got) != 1 || got[0].Addr != "10.0.0.2:1" {
		t.Errorf("All() = %v, want only the endpoints of the last entry", got)
	}
}

func TestNilDirectoryIsEmpty(t *testing.T) {
	var d *endpoints.Directory
	if _, ok := d.Addr("a", "http"); ok || len(d.All()) != 0 {
		t.Error("a nil directory is not empty")
	}
}

func TestFromTagsReturnsWhatTagsEncodes(t *testing.T) {
	own := map[string]string{"node": "a", "cluster": "c1"}
	addrs := map[string]string{endpoints.HTTP: "10.0.0.1:8080", "my.grpc-2_x": "[2001:db8::5]:9000"}
	tags, err := endpoints.Tags(own, addrs)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"node": "a", "cluster": "c1", "ep.http": "10.0.0.1:8080", "ep.my.grpc-2_x": "[2001:db8::5]:9000"}
	if !maps.Equal(tags, want) {
		t.Errorf("Tags = %v, want %v", tags, want)
	}
	if len(own) != 2 {
		t.Errorf("own tags changed: %v", own)
	}
	if got := endpoints.FromTags(tags); !maps.Equal(got, addrs) {
		t.Errorf("FromTags = %v, want %v", got, addrs)
	}
}

func TestFromTagsIgnoresInvalidEndpoints(t *testing.T) {
	got := endpoints.FromTags(map[string]string{
		"node": "a", "http": "10.0.0.1:1", "EP.x": "10.0.0.1:1", "ep.": "10.0.0.1:1",
		"ep.good": "10.0.0.1:1", "ep.any": "0.0.0.0:1", "ep.crlf": "10.0.0.1\r\nX:1", "ep.UPPER": "10.0.0.1:1",
	})
	if want := map[string]string{"good": "10.0.0.1:1"}; !maps.Equal(got, want) {
		t.Errorf("FromTags = %v, want %v", got, want)
	}
}

// The expected sizes were measured with the encoder of Serf v0.10.4.
func TestEncodedLenMatchesSerf(t *testing.T) {
	many := func(n int) map[string]string {
		m := make(map[string]string)
		for i := range n {
			m[fmt.Sprint("k", i)] = "v"
		}
		return m
	}
	x := strings.Repeat
	tests := []struct {
		tags map[string]string
		want int
	}{
		{nil, 2},
		{map[string]string{"a": ""}, 5},
		{map[string]string{"a": x("x", 31)}, 36},
		{map[string]string{"a": x("x", 32)}, 39},
		{map[string]string{"a": x("x", 255)}, 262},
		{map[string]string{"a": x("x", 256)}, 263},
		{map[string]string{x("k", 32): x("x", 300)}, 340},
		{many(15), 82},
		{many(16), 90},
		{map[string]string{"ep.http": "10.0.0.1:8080", "node": "a"}, 31},
	}
	for _, tt := range tests {
		if got := endpoints.EncodedLen(tt.tags); got != tt.want {
			t.Errorf("EncodedLen(%v) = %d, want %d", tt.tags, got, tt.want)
		}
	}
}

func TestTooLongTagsAreRefusedWithTheReason(t *testing.T) {
	addrs := map[string]string{"short": "10.0.0.1:1", "long": strings.Repeat("h", 100) + ":1"}
	free := endpoints.MaxTags
	if tags, err := endpoints.Tags(nil, addrs); err != nil {
		t.Fatal(err)
	} else {
		free -= endpoints.EncodedLen(tags)
	}
	own := map[string]string{"z": strings.Repeat("x", free-5)} // 2 for the key, 3 for the length
	if tags, err := endpoints.Tags(own, addrs); err != nil || endpoints.EncodedLen(tags) != endpoints.MaxTags {
		t.Errorf("Tags with exactly %d bytes: %v", endpoints.MaxTags, err)
	}
	own["z"] += "x"
	_, err := endpoints.Tags(own, addrs)
	if !errors.Is(err, endpoints.ErrTooLong) {
		t.Fatalf("Tags with one byte more: %v, want ErrTooLong", err)
	}
	for _, want := range []string{"513 bytes", "512", "z (", "ep.long ("} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not contain %q", err, want)
		}
	}
}

func TestCheckReportsInvalidEndpoints(t *testing.T) {
	long := strings.Repeat("n", 33)
	tests := []struct {
		endpoint, want string // want is a part of the error, or empty if the endpoint is valid
	}{
		{"grpc=10.0.0.5:9000", ""},
		{"g=host:1", ""},
		{"a.b-c_d=my_host.example.com.:65535", ""},
		{"six=[2001:db8::5]:9000", ""},
		{"zone=[fe80::1%eth0]:9000", ""},
		{"eq=a:1=b", "port"},
		{"=a:1", `name ""`},
		{"Grpc=a:1", "name"},
		{"-g=a:1", "name"},
		{"g-=a:1", "name"},
		{"g/g=a:1", "name"},
		{long + "=a:1", "name"},
		{"g=", "host:port"},
		{"g=a", "host:port"},
		{"g=2001:db8::5:9000", "host:port"},
		{"g=:9000", "no host"},
		{"g=0.0.0.0:9000", "no host"},
		{"g=[::]:9000", "no host"},
		{"g=a:0", "port"},
		{"g=a:65536", "port"},
		{"g=a:http", "port"},
		{"g=a b:1", "neither"},
		{"g=http://a:1", "host:port"},
		{"g=-a:1", "neither"},
		{"g=[fe80::1%a b]:1", "neither"},
		{"g=" + strings.Repeat("h", 254) + ":1", "neither"},
	}
	for _, tt := range tests {
		name, addr, _ := strings.Cut(tt.endpoint, "=")
		err := endpoints.Check(name, addr)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.endpoint, err)
			}
			continue
		}
		if !errors.Is(err, endpoints.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want ErrInvalid with %q", tt.endpoint, err, tt.want)
		}
	}
	if _, err := endpoints.Tags(nil, map[string]string{"g": ":1"}); !errors.Is(err, endpoints.ErrInvalid) {
		t.Errorf("Tags with a bad address: %v, want ErrInvalid", err)
	}
}

func FuzzFromTags(f *testing.F) {
	f.Add("ep.http", "10.0.0.1:8080")
	f.Add("ep.x", "[fe80::1%eth0]:1")
	f.Add("ep.", "::")
	f.Fuzz(func(t *testing.T, tag, value string) {
		for name, addr := range endpoints.FromTags(map[string]string{tag: value}) {
			if err := endpoints.Check(name, addr); err != nil {
				t.Error(err)
			}
			for _, c := range name + addr {
				if c <= ' ' || c > '~' {
					t.Errorf("%q=%q is not plain text", name, addr)
				}
			}
		}
	})
}

func BenchmarkAddr(b *testing.B) {
	var entries []endpoints.Entry
	for i := range 100 {
		entries = append(entries, endpoints.Entry{ID: fmt.Sprint("n", i), Node: true, Addrs: map[string]string{"http": "10.0.0.1:1", "peer": "10.0.0.1:2"}})
	}
	d := endpoints.New(entries)
	b.ReportAllocs()
	for b.Loop() {
		d.Addr("n42", endpoints.Peer)
	}
}
