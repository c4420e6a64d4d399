package wrapkey_test

import (
	"bytes"
	"strings"
	"testing"

	"shardway/keysource"
	"shardway/proxy/wrapkey"
)

// fields returns the fields of sources such as wrap:cookie:sid.
func fields(tb testing.TB, texts ...string) wrapkey.Fields {
	tb.Helper()
	table, err := keysource.NewTable(keysource.Spec{Sources: texts})
	if err != nil {
		tb.Fatal(err)
	}
	return wrapkey.NewFields(table.Wrapped())
}

// codecOf returns a Codec with the given HMAC keys.
func codecOf(keys ...string) *wrapkey.Codec {
	return wrapkey.NewCodec(func() (all [][]byte) {
		for _, key := range keys {
			all = append(all, []byte(key))
		}
		return all
	})
}

const (
	oldSecret = "0123456789abcdef0123456789abcdef"
	newSecret = "fedcba9876543210fedcba9876543210"
)

func TestSuffixIsValidForItsValueFieldAndSecretOnly(t *testing.T) {
	all := fields(t, "wrap:cookie:sid", "wrap:cookie:SID", "wrap:header:sid")
	codec := codecOf(oldSecret)
	for key, wantLen := range map[string]int{
		createdKey:                   wrapkey.SuffixLen,
		"acme":                       4 + 27,
		"a":                          4 + 23,
		strings.ToUpper(idKey(0xab)): 4 + 64, // the app has named it, so it has another spelling
		"\x00 é%\xff":                4 + 30,
		strings.Repeat("k", 255):     4 + 362,
	} {
		testSuffix(t, codec, all, key, wantLen)
	}
}

// createdKey is a key that Shardway has created.
var createdKey = idKey(1)

// idKey returns the key of an id that begins with a byte.
func idKey(first byte) string { return string(wrapkey.ID{first, 2, 3}.AppendKey(nil)) }

// testSuffix tests the suffix for the value alice of the first field.
func testSuffix(t *testing.T, codec *wrapkey.Codec, all wrapkey.Fields, key string, wantLen int) {
	t.Helper()
	suffix := codec.AppendSuffix(nil, &all[0], []byte(key), []byte("alice"))
	if len(suffix) != wantLen {
		t.Fatalf("%q: a suffix of %d bytes, want %d", key, len(suffix), wantLen)
	}
	wrapped := append([]byte("alice"), suffix...)
	if value, got, ok := codec.Split(&all[0], wrapped); !ok || string(got) != key || string(value) != "alice" {
		t.Errorf("%q: Split() = %q %q %v", key, value, got, ok)
	}
	for name, tc := range map[string]struct {
		codec *wrapkey.Codec
		field int
		text  string
	}{
		"another value":      {codec, 0, "bob" + string(suffix)},
		"a longer value":     {codec, 0, "xalice" + string(suffix)},
		"another cookie":     {codec, 1, string(wrapped)},
		"a header":           {codec, 2, string(wrapped)},
		"another secret":     {codecOf(newSecret), 0, string(wrapped)},
		"no secret":          {nil, 0, string(wrapped)},
		"no value":           {codec, 0, string(suffix)},
		"no suffix":          {codec, 0, "alice"},
		"nothing":            {codec, 0, ""},
		"a part of a suffix": {codec, 0, string(wrapped[:len(wrapped)-1])},
		"another marker":     {codec, 0, strings.Replace(string(wrapped), ".s", ".x", 1)},
		"the other marker":   {codec, 0, strings.NewReplacer(".sw-", ".sn-", ".sn-", ".sw-").Replace(string(wrapped))},
		"two suffixes":       {codec, 0, string(wrapped) + string(suffix)},
		"a line break":       {codec, 0, string(wrapped[:len(wrapped)-1]) + "\n"},
		"another line break": {codec, 0, string(wrapped) + "\n"},
		"padding":            {codec, 0, string(wrapped[:len(wrapped)-1]) + "="},
	} {
		if value, got, ok := tc.codec.Split(&all[tc.field], []byte(tc.text)); ok {
			t.Errorf("%q, %s: Split() = %q %q", key, name, value, got)
		}
	}
	// Each bit of the suffix counts, including those of its last character that encode nothing.
	for i := len("alice"); i < len(wrapped); i++ {
		for bit := range 8 {
			changed := bytes.Clone(wrapped)
			changed[i] ^= 1 << bit
			if _, _, ok := codec.Split(&all[0], changed); ok {
				t.Errorf("byte %d, bit %d changed, and the suffix is valid: %q", i, bit, changed)
			}
		}
	}
}

// During a rotation all nodes accept both secrets, so no client loses its session.
func TestSuffixStaysValidWhileItsSecretIsAccepted(t *testing.T) {
	for _, key := range []string{createdKey, "acme"} {
		t.Run(key, func(t *testing.T) { testRotation(t, key) })
	}
}

func testRotation(t *testing.T, key string) {
	t.Helper()
	field := &fields(t, "wrap:cookie:sid")[0]
	wrap := func(codec *wrapkey.Codec) []byte {
		return codec.AppendSuffix([]byte("v"), field, []byte(key), []byte("v"))
	}
	before, adding, using, after := codecOf(oldSecret), codecOf(oldSecret, newSecret), codecOf(newSecret, oldSecret), codecOf(newSecret)
	for _, tc := range []struct {
		name    string
		text    []byte
		codec   *wrapkey.Codec
		isValid bool
	}{
		{"old suffix, new secret accepted", wrap(before), adding, true},
		{"old suffix, new secret used", wrap(adding), using, true},
		{"new suffix, new secret accepted only", wrap(using), adding, true},
		{"new suffix, old secret removed", wrap(using), after, true},
		{"old suffix, old secret removed", wrap(before), after, false},
		{"suffix without a secret, secret added", wrap(nil), before, false},
	} {
		if _, _, ok := tc.codec.Split(field, tc.text); ok != tc.isValid {
			t.Errorf("%s: valid is %v", tc.name, ok)
		}
	}
}

func TestKeyOfIDIsHexadecimal(t *testing.T) {
	id := wrapkey.ID{0xab, 15: 0x01}
	key := id.AppendKey(nil)
	if got, ok := wrapkey.ParseKey(key); !ok || got != id || string(key) != "ab000000000000000000000000000001" {
		t.Errorf("the key %s of %v gives %v %v", key, id, got, ok)
	}
	for _, other := range []string{"", "alice", "ab00000000000000000000000000000g", "ab0000000000000000000000000000010", "AB000000000000000000000000000001"} {
		if _, ok := wrapkey.ParseKey([]byte(other)); ok {
			t.Errorf("%q is an id", other)
		}
	}
}

// FuzzSplit verifies that only a suffix that AppendSuffix has created is valid, and that Split returns its
// value and its id.
func FuzzSplit(f *testing.F) {
	all := fields(f, "wrap:cookie:sid", "wrap:header:Mcp-Session-Id")
	codec := codecOf(oldSecret, newSecret)
	f.Add([]byte("alice.sw-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"))
	for _, key := range []string{createdKey, "acme"} {
		f.Add(codec.AppendSuffix([]byte("v"), &all[0], []byte(key), []byte("v")))
		f.Add(codec.AppendSuffix([]byte("v"), &all[1], []byte(key), []byte("v")))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for i := range all {
			before := string(text)
			value, key, ok := codec.Split(&all[i], text)
			if string(text) != before {
				t.Fatal("the text has changed")
			}
			if ok {
				byNew := codecOf(newSecret).AppendSuffix(bytes.Clone(value), &all[i], key, value)
				byOld := codec.AppendSuffix(bytes.Clone(value), &all[i], key, value)
				if !bytes.Equal(byOld, text) && !bytes.Equal(byNew, text) {
					t.Fatalf("Split(%q) = %q %q, and wrapped again it is %q", text, value, key, byOld)
				}
			}
			if len(text) == 0 {
				continue
			}
			for _, wanted := range [][]byte{[]byte(createdKey), text[:min(len(text), 255)]} {
				again, got, valid := codec.Split(&all[i], codec.AppendSuffix(bytes.Clone(text), &all[i], wanted, text))
				if !valid || !bytes.Equal(got, wanted) || !bytes.Equal(again, text) {
					t.Fatalf("%q is wrapped with %q, and read as %q with %q", text, wanted, again, got)
				}
			}
		}
	})
}
