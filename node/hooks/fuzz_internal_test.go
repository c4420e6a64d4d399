package hooks

import (
	"strings"
	"testing"
	"unicode/utf8"

	"shardway/ack"
	"shardway/ack/agent"
)

// FuzzAnswer checks that the result of any response covers only the shards of the call, within the limits, or is an error that names the
// next step.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		"", " \n", "{}", `{"notes":{"17":"czM6Ly94"},"failed":{"18":"why"}}`, `{"notes":{"17":"!"}}`, `{"failed":{"17":null,"18":7}}`,
		`{"failed":{"017":""}}`, `{"failed":{"17":"a","17":"b"}}`, "{}x", `[`, `{"notes":` + strings.Repeat("[", 50), "{\"failed\":{\"17\":\"\xff\\ud800\x00\"}}",
		`{"notes":{"17":"` + strings.Repeat("QUFB", 400) + `"}}`,
	} {
		f.Add([]byte(seed), byte(1))
	}
	f.Fuzz(func(t *testing.T, body []byte, kind byte) {
		call := &agent.HookCall{Kind: agent.HookKind(1 + kind%3), Shards: []agent.HookShard{{Shard: 17}, {Shard: 18}}}
		r, err := decodeResponse(call, body)
		if err != nil {
			if !strings.Contains(err.Error(), "; ") || len(r.Failed)+len(r.Notes) > 0 {
				t.Fatalf("%q: %v, %+v", body, err, r)
			}
			return
		}
		for s, text := range r.Failed {
			if s != 17 && s != 18 || text == "" || len(text) > maxReasonBytes+2 || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\x1b\x00") {
				t.Fatalf("%q: shard %d failed with %q", body, s, text)
			}
		}
		for s, note := range r.Notes {
			_, failed := r.Failed[s]
			if s != 17 && s != 18 || len(note) == 0 || len(note) > ack.MaxNote || failed || call.Kind != agent.HookRelease {
				t.Fatalf("%q: a note of shard %d, %d bytes", body, s, len(note))
			}
		}
	})
}
