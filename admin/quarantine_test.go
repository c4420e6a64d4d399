package admin_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"shardway/admin/api"
	"shardway/shardmap"
)

// Mark returns the shard and the hash of a key. The hash of the fake is the key reversed.
func (f *fake) Mark(_, key string) (shard uint32, hash string, err error) {
	return uint32(shardmap.ShardOf(key, 4)), fmt.Sprintf("%016x", key[len(key)-1]), nil
}

// A quarantined key is contained only in the request for its quarantine. Everywhere else, its hash is
// used.
func TestKeysAreQuarantinedByTheirMark(t *testing.T) {
	f := newFake()
	h := handlerOf(f)
	shard := uint32(shardmap.ShardOf("alice", 4))
	for _, tc := range []struct {
		path, body string
		want       api.Action
	}{
		{"/v1/quarantine", `{"key":"alice","for":"1h"}`, api.Action{Verb: api.Quarantine, Shard: shard, Hash: "0000000000000065", For: "1h"}},
		{"/v1/quarantine?key=alice", "", api.Action{Verb: api.Quarantine, Shard: shard, Hash: "0000000000000065"}},
		{"/v1/quarantine", `{"shard":3,"hash":"0123456789abcdef"}`, api.Action{Verb: api.Quarantine, Shard: 3, Hash: "0123456789abcdef"}},
		{"/v1/quarantine?key=alice&for=1s", "", api.Action{Verb: api.Quarantine, Shard: shard, Hash: "0000000000000065", For: "1s"}},
		{"/v1/quarantine?key=alice&for=168h", "", api.Action{Verb: api.Quarantine, Shard: shard, Hash: "0000000000000065", For: "168h"}},
		{"/v1/lift?key=alice", "", api.Action{Verb: api.Lift, Shard: shard, Hash: "0000000000000065"}},
	} {
		res := fetchJSON(t, h, http.MethodPost, tc.path, tc.body, "Content-Type", "application/json")
		did := f.actions()
		if res.Code != 200 || len(did) == 0 {
			t.Errorf("%s %s = %d %s", tc.path, tc.body, res.Code, body(res))
			continue
		}
		got := did[len(did)-1]
		got.By = ""
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s %s did %+v, want %+v", tc.path, tc.body, got, tc.want)
		}
		if strings.Contains(body(res), "alice") {
			t.Errorf("%s tells the key: %s", tc.path, body(res))
		}
	}
}

func TestQuarantineErrorsNameMissingArgument(t *testing.T) {
	h := handlerOf(newFake())
	for query, want := range map[string]string{
		"":                              "key is missing",
		"key=":                          "give the key of a request",
		"key=a&hash=0123456789abcdef":   "is given beside key",
		"key=a&shard=1":                 "is that of the key",
		"hash=0123456789abcdef":         "shard is missing",
		"hash=xyz&shard=1":              "is not a key hash",
		"hash=0123456789abcdef&shard=4": "is not a shard of this cluster: give a number from 0 to 3",
		"hash=0123456789abcde&shard=1":  "is not a key hash",
		"hash=0123456789abcdeg&shard=1": "is not a key hash",
		"key=a&for=999ms":               "is not a duration",
		"key=a&for=168h0m1s":            "is not a duration",
		"key=a&for=soon":                "is not a duration",
		"key=a&for=1000h":               "is not a duration",
		"key=a&node=n1":                 "is not known here",
	} {
		if res := fetchJSON(t, h, http.MethodPost, "/v1/quarantine?"+query, ""); res.Code != 400 || !strings.Contains(body(res), want) {
			t.Errorf("%s = %d %s, want 400 and %q", query, res.Code, body(res), want)
		}
	}
}
