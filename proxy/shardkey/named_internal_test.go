package shardkey

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"shardway/proxy/h1"
)

// FuzzParseNamed tests that ParseNamed decodes a key like the standard library, and accepts no other text.
func FuzzParseNamed(f *testing.F) {
	for _, value := range []string{"a", "a b", "%41", "%", "%4", "%zz", "a%2Fb", "\xc3\xa9", "%00", "+"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		isControl := func(r rune) bool { return r < ' ' || r == 0x7f }
		if strings.ContainsFunc(value, isControl) || strings.Trim(value, " \t") != value { // the parser repairs such fields
			return
		}
		var res h1.Response
		text := fmt.Sprintf("HTTP/1.1 421 X\r\nShardway-Key: %s\r\nContent-Length: 0\r\n\r\n", value)
		if err := res.ParseHeader([]byte(text), []byte("GET"), 10); err != nil {
			return
		}
		key := ParseNamed(&res.Header)
		want, err := url.PathUnescape(value)
		isValid := err == nil && want != "" && len(want) <= maxBodyKey
		if isValid != (key != nil) || isValid && !bytes.Equal(key, []byte(want)) {
			t.Fatalf("%q is %q, want %q, %v", value, key, want, err)
		}
	})
}
