package shardkey_test

import (
	"bytes"
	"testing"

	"shardway/proxy/shardkey"
)

func TestHeaderValueOfAKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"user-42": "user-42",
		"a b":     "a b",
		" a ":     "%20a%20",
		"100%":    "100%25",
		"a\r\nb":  "a%0D%0Ab",
		"ü\x00":   "%C3%BC%00",
	} {
		if got := string(shardkey.AppendHeaderValue(nil, []byte(key))); got != want {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
	for _, invalid := range []string{"%", "%4", "a%4", "%4g", "%c3", "%%41"} {
		if key, ok := shardkey.AppendDecoded(nil, []byte(invalid)); ok {
			t.Errorf("%q: decoded to %q, want an error", invalid, key)
		}
	}
}

func FuzzHeaderValue(f *testing.F) {
	f.Add([]byte("user 42"))
	f.Add([]byte("%41 \x7f\xff"))
	f.Fuzz(func(t *testing.T, key []byte) {
		value := shardkey.AppendHeaderValue(nil, key)
		for _, c := range value {
			if c < ' ' || c >= 0x7f {
				t.Fatalf("%q: value %q contains the byte %#x", key, value, c)
			}
		}
		if decoded, ok := shardkey.AppendDecoded(nil, value); !ok || !bytes.Equal(decoded, key) {
			t.Fatalf("%q: decoded to %q, %v", key, decoded, ok)
		}
		shardkey.AppendDecoded(nil, key) // must not panic for any value
	})
}
