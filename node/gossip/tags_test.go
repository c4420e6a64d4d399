package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"shardway/endpoints"
)

// The length that is checked is the length of what Serf sends.
func TestEncodedLenIsSerfs(t *testing.T) {
	for n := range 40 {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprintf("key%0*d", i, i)] = strings.Repeat("v", 2*i)
		}
		var b bytes.Buffer
		if err := codec.NewEncoder(&b, &codec.MsgpackHandle{}).Encode(m); err != nil {
			t.Fatal(err)
		}
		if got, want := endpoints.EncodedLen(m), b.Len()+1; got != want {
			t.Errorf("endpoints.EncodedLen of %d tags = %d, Serf sends %d", n, got, want)
		}
	}
}

func TestTagsRoundTrip(t *testing.T) {
	for _, want := range []Tags{
		{},
		{Node: "a"},
		{
			Node: "a", Disk: "d", Cluster: "c", Shards: 65536, Role: "gateway", BootstrapExpect: 3, Weight: 1000,
			Zone: "z", Version: "v", AppVersion: "2.1 beta", Levels: Levels{InForce: 1, Known: 255}, Exec: true, Endpoints: map[string]string{"http": "h:1", "x.y": "z:1"},
		},
	} {
		m, err := want.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeTags(m)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("decoded %+v, %v, want %+v", got, err, want)
		}
	}
}

// Unknown content of a later version does not affect its members: neither a tag with another name, nor another format of the levels.
func TestUnknownTagsAreIgnored(t *testing.T) {
	for tag, want := range map[string]Levels{
		"1-1": {InForce: 1, Known: 1}, "2-17": {InForce: 2, Known: 17},
		"": {}, "1": {}, "-": {}, "1-": {}, "-1": {}, "2-1": {}, "1-256": {}, "1-2-3": {}, "1,4": {}, "+1-2": {},
	} {
		got, err := decodeTags(map[string]string{"v": "2", "node": "a", "shards": "7", "level": tag, "later": "x"})
		if err != nil || !reflect.DeepEqual(got, Tags{Node: "a", Shards: 7, Levels: want}) {
			t.Errorf("level %q: %+v, %v, want %v", tag, got, err, want)
		}
	}
}

func TestForeignTagsAreErrors(t *testing.T) {
	for _, m := range []map[string]string{
		{"node": "a"},
		{"cluster": "c"},
		{"v": "1", "node": "a"},
		{"v": "2", "shards": "-1"},
		{"v": "2", "shards": "99999999999"},
		{"v": "2", "weight": "x"},
		{"v": "2", "expect": ""},
	} {
		if got, err := decodeTags(m); err == nil {
			t.Errorf("decode(%v) = %+v", m, got)
		}
	}
	if got, err := decodeTags(map[string]string{"ep.db": "x:1", "ep.bad": "x", "dc": "y"}); err != nil || got.Node != "" || got.Endpoints["db"] != "x:1" || len(got.Endpoints) != 1 {
		t.Errorf("another program's member: %+v, %v", got, err)
	}
	if _, err := decodeTags(map[string]string{"v": "1"}); err == nil || !strings.Contains(err.Error(), `"1"`) || !strings.Contains(err.Error(), "2") {
		t.Errorf("another version: %v, want both numbers", err)
	}
}

// Tags that will not fit later are refused at the start: the longest tags that a node may announce fit together with the addresses of a
// usual node. Once, a node whose tags only fit while it had no cluster started, and failed when it was added to one.
func TestTagsThatWillNotFitAreFoundAtTheStart(t *testing.T) {
	long := strings.Repeat("x", 64)
	tags := Tags{
		Node: "node-1.example.com", Disk: strings.Repeat("d", 16), Shards: 65536, Role: "gateway", BootstrapExpect: 9, Weight: 1000,
		Zone: "eu-central-1a", Version: "v1.2.3-20261122190000-0123456789ab", AppVersion: long,
		Endpoints: map[string]string{"http": "192.168.100.100:8080", "admin": "192.168.100.100:8081", "peer": "192.168.100.100:7947"},
	}
	if _, err := New(Options{Name: "a", Tags: tags}); err != nil {
		t.Errorf("New = %v", err)
	}
	for tags.Zone = ""; ; tags.Zone += "x" { // the longest that still fits
		longer := tags
		longer.Zone += "x"
		if _, err := longer.encode(); err != nil {
			break
		}
	}
	if _, err := New(Options{Name: "a", Tags: tags}); !errors.Is(err, endpoints.ErrTooLong) || !strings.Contains(err.Error(), "--app-version") {
		t.Errorf("New = %v, want that the tags will be too long, and the flags to change", err)
	}
}
