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
	"shardway/internal/nodelabel"
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
		{Weight: 1},
		{Node: "a", Weight: 1},
		{
			Node: "a", Disk: "d", Cluster: "c", Shards: 65536, Role: "gateway", BootstrapExpect: 3, Weight: 1000,
			Zone: "z", Region: "eu", Roles: []string{"app", "db"}, Meta: map[string]string{"rack": "r7", "x": ""}, Version: "v", AppVersion: "2.1 beta", Levels: Levels{InForce: 1, Known: 255}, Exec: true, Endpoints: map[string]string{"http": "h:1", "x.y": "z:1"},
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
		if err != nil || !reflect.DeepEqual(got, Tags{Node: "a", Shards: 7, Weight: 1, Levels: want}) {
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
	if _, err := New(Options{Name: "a", Tags: tags}); !errors.Is(err, endpoints.ErrTooLong) || !strings.Contains(err.Error(), `zone = "xxx`) || !strings.Contains(err.Error(), "--app-version") {
		t.Errorf("New = %v, want that the tags will be too long, and the flags to change", err)
	}
}

// All metadata that a node may have fits next to the announcement of a usual node with two roles. A node with more than
// that does not start, and the error names the largest setting.
func TestMetadataOfMaximumSizeFits(t *testing.T) {
	tags := Tags{
		Node: "n-a1b2c3", Disk: strings.Repeat("d", 16), Shards: 1024, Role: RoleNode, BootstrapExpect: 3, Weight: 1,
		Zone: "eu-1a", Region: "eu", Roles: []string{"app", "db"}, Version: "0.1.0-dev",
		Endpoints: map[string]string{"http": "10.0.0.1:8080", "admin": "10.0.0.1:8081", "peer": "10.0.0.1:7947"},
	}
	used, err := tags.withMaxLengths().encode()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes without metadata", endpoints.EncodedLen(used))
	tags.Meta = map[string]string{"k": strings.Repeat("v", nodelabel.MaxMetaBytes-len("k="))}
	if err := tags.CheckSize(); err != nil {
		t.Errorf("CheckSize = %v", err)
	}
	tags.AppVersion = strings.Repeat("a", 64)
	tooLong, ok := errors.AsType[*TooLongError](tags.CheckSize())
	if !ok || tooLong.Setting != "meta" || tooLong.Bytes != nodelabel.MaxMetaBytes || !errors.Is(tooLong, endpoints.ErrTooLong) {
		t.Fatalf("CheckSize = %v, want a *TooLongError for meta", tooLong)
	}
	for _, want := range []string{`meta = "k=vvv`, "takes 256 bytes", "shorten it", "512"} {
		if !strings.Contains(tooLong.Error(), want) {
			t.Errorf("error %q does not contain %q", tooLong, want)
		}
	}
}

// Another member may announce any text. Roles and metadata that are invalid are ignored.
func TestInvalidLabelsOfOthersAreIgnored(t *testing.T) {
	tags, err := decodeTags(map[string]string{"v": "2", "node": "a", "roles": "app,b c,,<script>", "meta": "rack=r7,<b>=x,none"})
	if err != nil || !reflect.DeepEqual(tags.Roles, []string{"app"}) || !reflect.DeepEqual(tags.Meta, map[string]string{"rack": "r7"}) {
		t.Errorf("decoded %+v, %v", tags, err)
	}
}
