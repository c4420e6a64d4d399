package shardkey

import (
	"bytes"
	"mime"
	"net/url"
	"strings"
	"testing"
)

// FuzzFormKey tests that parsers of forms which use the first or the last value, and which split at
// semicolons, read the key that formKey returns.
func FuzzFormKey(f *testing.F) {
	for _, body := range []string{"room=a", "room=a&room=b", "ro%6fm=%61+b", "x;room=a", "room[]=a", "%20room=a", "ROOM=a", "room=%zz", "room=a%+", "room=a\n", "\ufeffroom=a", "a&&b=;c"} {
		f.Add([]byte(body), "room")
		f.Add([]byte(body), "user[room]")
	}
	f.Fuzz(func(t *testing.T, body []byte, name string) {
		if name == "" || strings.ContainsAny(name, " \t\r\n") || strings.HasSuffix(name, "%+") {
			return
		}
		before := bytes.Clone(body)
		key, problemText := formKey(make([]byte, 0, len(body)), body, name)
		if !bytes.Equal(before, body) {
			t.Fatal("the body has changed")
		}
		if problemText != "" {
			return
		}
		values, err := url.ParseQuery(string(body))
		if err != nil { // other parsers refuse this body
			return
		}
		for read, other := range values {
			isWanted := read == name
			if !isWanted && strings.EqualFold(strings.Trim(read, " \t\r\n"), name) {
				t.Fatalf("%q has the field %q, and the key of %q is %q", body, read, name, key)
			}
			for _, value := range other {
				if isWanted && value != "" && value != string(key) {
					t.Fatalf("%q of %q is %q, and %q for another parser", name, body, key, value)
				}
			}
		}
	})
}

// FuzzContentType tests that a format which formatOf finds clear is that of the standard library.
func FuzzContentType(f *testing.F) {
	for _, value := range []string{"application/json", "application/json; charset=utf-8", "text/json", "application/a+json;a=b", "application/json, text/plain", "application/x-www-form-urlencoded", `application/json; charset="utf-8"`, "application/json;;", "multipart/form-data; boundary=x"} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		format := formatOf(value)
		mediaType, parameters, err := mime.ParseMediaType(string(value))
		isJSON := mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
		isForm := mediaType == "application/x-www-form-urlencoded"
		switch {
		case format == formatOther && err == nil && (isJSON || isForm || mediaType == "multipart/form-data"):
			t.Fatalf("%q is read as %s", value, mediaType)
		case (format == formatJSON || format == formatForm) && (err != nil || isJSON != (format == formatJSON) || isForm != (format == formatForm)):
			t.Fatalf("%q is format %d, and %s, %v", value, format, mediaType, err)
		case (format == formatJSON || format == formatForm) && parameters["charset"] != "" && !strings.HasPrefix(strings.ToLower(parameters["charset"]), "utf"):
			t.Fatalf("%q has the character set %s", value, parameters["charset"])
		}
	})
}
