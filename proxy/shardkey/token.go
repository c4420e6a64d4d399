package shardkey

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"shardway/keysource"
)

// The functions of this file read a key from a claim of a token. They verify nothing: the app does that, and a
// forged claim only selects the node whose app rejects it.

// jwtKey returns the key that a claim gives, or nil if there is none. If the request must be refused,
// problemText is the reason.
func (e *Extractor) jwtKey(source *keysource.Source) (key []byte, problemText string) {
	token, problemText := e.token(source)
	if problemText != "" {
		return nil, problemText
	}
	claim := findClaim(token, source)
	if structure := structureOf(claim); structure != "" && e.ReportClaim != nil {
		e.ReportClaim(source.String(), structure)
	}
	return claimKey(claim), ""
}

// claimKey returns the value of a claim that is a string, or the text of a number or boolean. It returns
// nil for any other claim.
func claimKey(claim json.RawMessage) []byte {
	if len(claim) == 0 {
		return nil
	}
	switch claim[0] {
	case '"':
		var text string
		if err := json.Unmarshal(claim, &text); err != nil || text == "" {
			return nil
		}
		return []byte(text)
	case '{', '[', 'n':
		return nil
	}
	return claim
}

// structureOf returns the type of a claim that can never be a key. Empty means that it can be one.
func structureOf(claim json.RawMessage) string {
	switch {
	case len(claim) > 0 && claim[0] == '[':
		return "array"
	case len(claim) > 0 && claim[0] == '{':
		return "object"
	}
	return ""
}

// structuredClaimHint describes the first claim that is a key source but yields no key because it is an array or
// object. It is empty if there is none.
func (e *Extractor) structuredClaimHint(sources *keysource.SourceList) string {
	for _, source := range sources.Sources {
		for _, single := range source.Single() {
			if single.Kind != keysource.JWT {
				continue
			}
			token, _ := e.token(&single)
			if structure := structureOf(findClaim(token, &single)); structure != "" {
				return "; the claim " + strconv.Quote(single.Name) + " is an " + structure + ", and a key is a string, a number or a boolean"
			}
		}
	}
	return ""
}

// token returns the token in which a source finds its claim, or nil if there is none. If the request must
// be refused, problemText is the reason.
func (e *Extractor) token(source *keysource.Source) (token []byte, problemText string) {
	switch source.Token.Kind {
	case keysource.InCookie:
		token, problemText = e.cookieKey(source.Token.Name)
		if len(token) > 1 && token[0] == '"' && token[len(token)-1] == '"' { // as apps read the cookie
			token = token[1 : len(token)-1]
		}
		if problemText == "" && isEncodedToken(token) {
			problemText = detailEncodedToken
		}
		return token, problemText
	case keysource.InQuery:
		value, same := queryValue(e.Grow(len(e.Request.Query())), e.Request.Query(), source.Token.Name)
		if !same {
			return nil, detailTwoKeys
		}
		return value, ""
	case keysource.InSubprotocol:
		return e.subprotocolToken(source.Token.Name)
	case keysource.InAuthorization:
	}
	authorization, problemText := e.headerKey("Authorization")
	return bearerToken(authorization), problemText
}

// bearerToken returns the token of an Authorization field, or nil if there is none.
func bearerToken(authorization []byte) []byte {
	const scheme = "bearer "
	if len(authorization) < len(scheme) || !bytes.EqualFold(authorization[:len(scheme)], []byte(scheme)) {
		return nil
	}
	return bytes.Trim(authorization[len(scheme):], blanks)
}

// isEncodedToken reports whether a cookie contains a token only for apps that percent-decode cookies.
func isEncodedToken(value []byte) bool {
	if bytes.IndexByte(value, '%') < 0 {
		return false
	}
	decoded, err := url.PathUnescape(string(value))
	return err == nil && strings.Count(decoded, ".") == 2
}

// subprotocolToken returns the token in a subprotocol that a WebSocket client offers: the text after the
// prefix. Browsers cannot send other headers with a WebSocket.
func (e *Extractor) subprotocolToken(prefix string) (token []byte, problemText string) {
	const name = "Sec-WebSocket-Protocol"
	for i := e.Request.FindLookalike(name, 0); i >= 0; i = e.Request.FindLookalike(name, i+1) {
		_, value := e.Request.Field(i)
		if e.removedFields().Has(e.Request.KnownField(i)) {
			continue
		}
		for protocol := range bytes.SplitSeq(value, []byte(",")) {
			text, hasPrefix := bytes.CutPrefix(bytes.Trim(protocol, blanks), []byte(prefix))
			switch {
			case !hasPrefix || len(text) == 0:
			case e.Request.IsConnectionOption(i):
				return nil, detailHopByHopKey
			case token != nil && !bytes.Equal(text, token):
				return nil, detailTwoKeys
			default:
				token = text
			}
		}
	}
	return token, ""
}

// findClaim returns the claim of a token as JSON, or nil if there is none.
func findClaim(token []byte, source *keysource.Source) json.RawMessage {
	parts := bytes.Split(token, []byte("."))
	if len(parts) != 3 {
		return nil
	}
	payload := make([]byte, base64.RawURLEncoding.DecodedLen(len(parts[1])))
	n, err := base64.RawURLEncoding.Decode(payload, parts[1])
	if err != nil {
		return nil
	}
	claims := json.RawMessage(bytes.TrimLeft(payload[:n], " \t\r\n"))
	if !source.HasPointer() {
		return member(claims, source.Name)
	}
	for name := range keysource.PointerNames(source.Name) {
		if claims = member(claims, name); claims == nil {
			return nil
		}
	}
	return claims
}

// member returns a member of an object, or an element of an array. It returns nil if there is none.
func member(value json.RawMessage, name string) json.RawMessage {
	if structureOf(value) == "array" {
		return element(value, name)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(value, &members); err != nil {
		return nil
	}
	return members[name]
}

// element returns an element of an array. index is a decimal number without leading zeros (RFC 6901,
// section 4).
func element(array json.RawMessage, index string) json.RawMessage {
	number, err := strconv.Atoi(index)
	if err != nil || strconv.Itoa(number) != index || strings.HasPrefix(index, "-") {
		return nil
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(array, &elements); err != nil || number >= len(elements) {
		return nil
	}
	return elements[number]
}
