package execcommand

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func values(key string) map[Placeholder][]byte {
	return map[Placeholder][]byte{PlaceholderAddr: []byte("127.0.0.1:1"), PlaceholderPort: []byte("1"), PlaceholderDir: []byte("/d e"), PlaceholderKey: []byte(key), PlaceholderShard: []byte("7")}
}

func TestCommandIsSplitIntoWords(t *testing.T) {
	for text, want := range map[string][]string{
		"app":                            {"app"},
		"  app \t -x\n":                  {"app", "-x"},
		"app {addr} {dir} {key}":         {"app", "127.0.0.1:1", "/d e", "k v'\"$x"},
		"app --dir={dir}/x {key}{shard}": {"app", "--dir=/d e/x", "k v'\"$x7"},
		`app 'a b' "c  d" e\ f "" ''`:    {"app", "a b", "c  d", "e f", "", ""},
		`app '{key}' "{key}" x'y'"z"`:    {"app", "k v'\"$x", "k v'\"$x", "xyz"},
		`app '\' "\"" \{key\}`:           {"app", `\`, `"`, "{key}"},
		`app '\n' "\"" \\`:               {"app", `\n`, `"`, `\`},
		"app {{x}} {{{key}}}":            {"app", "{x}", "{k v'\"$x}"},
		"app $HOME `id` *;| > x":         {"app", "$HOME", "`id`", "*;|", ">", "x"},
		"sh -c 'exec app \"$0\"' {port}": {"sh", "-c", `exec app "$0"`, "1"},
	} {
		command, err := ParseCommand(text)
		if err != nil {
			if want != nil {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		var got []string
		for _, arg := range command.Args(values("k v'\"$x")) {
			got = append(got, string(arg))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestInvalidCommandIsRejected(t *testing.T) {
	for text, want := range map[string]string{
		"": "empty", " ": "empty", "{key} x": "first word", "app-{key}": "first word", `""`: "first word", "app {": "not one of", "app {keys}": "not one of",
		"app }": "has no {", "app 'x": "has no end", `app "x`: "has no end", `app \`: "backslash", "app \x00": "NUL", "app {ADDR}": "not one of",
	} {
		if _, err := ParseCommand(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestKeyThatLooksLikeAnOptionIsRejected(t *testing.T) {
	for text, accepts := range map[string]bool{
		"app {key}": false, "app -- {key}": true, "app {key} --": false, "app --user={key}": true, "app x{key}": true, "app '{key}x'": false, "app {addr}": true,
	} {
		command, err := ParseCommand(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"-x", "--rm", "-"} {
			if err := command.CheckKey([]byte(key)); (err == nil) != accepts {
				t.Errorf("%q with key %q: %v", text, key, err)
			}
		}
		if command.CheckKey([]byte("x-")) != nil || command.CheckKey([]byte("a\x00")) == nil {
			t.Errorf("%q: wrong for other keys", text)
		}
	}
}

func FuzzCommand(f *testing.F) {
	for _, text := range []string{"app {addr} '{key}'", `a "b\"" {{ }} {dir}x`, "a {key", "a\\"} {
		f.Add(text, []byte("-k'\" {addr}"))
	}
	f.Fuzz(func(t *testing.T, text string, key []byte) {
		command, err := ParseCommand(text)
		if err != nil {
			return
		}
		args, other := command.Args(values(string(key))), command.Args(values("x"))
		if len(args) != len(other) || len(args) == 0 || !bytes.Equal(args[0], other[0]) {
			t.Fatalf("%q: the key changes the words: %q, %q", text, args, other)
		}
		if command.CheckKey(key) != nil {
			return
		}
		hasDashes := false
		for i := range args {
			isFixed := bytes.Equal(args[i], other[i])
			hasDashes = hasDashes || isFixed && string(args[i]) == "--"
			if !isFixed && !hasDashes && bytes.HasPrefix(args[i], []byte("-")) && !bytes.HasPrefix(other[i], []byte("-")) {
				t.Errorf("%q: key %q becomes the option %q", text, key, args[i])
			}
			if bytes.IndexByte(args[i], 0) >= 0 {
				t.Errorf("%q: a NUL byte in %q", text, args[i])
			}
		}
	})
}
