// Package wrapkey adds keys to the session IDs that an app creates, and removes them from requests.
//
// The app returns a session ID V in a header or a cookie. The ingress sends V to the client with a suffix that
// contains the ID K of the key. In later requests the client returns V with the suffix, which the ingress removes
// in order to route the request by K. Nothing is stored on a node.
//
//	V ".sw-" base64url(K, 16 bytes; checksum, 16 bytes)
//
// If the app names the key of a request (421 with Shardway-Key), the suffix contains this key N instead. Keys of
// more than 255 bytes do not fit into a suffix.
//
//	V ".sn-" base64url(checksum, 16 bytes; encrypted N, 1 to 255 bytes)
//
// N is encrypted with AES-CTR. The checksum is the initialization vector, so the two parts are an SIV mode: the
// client cannot read N, which may be the name of a tenant. K is random and is not encrypted.
//
// The checksum is an HMAC-SHA256, truncated to 16 bytes, of the field (cookie or header, and its name), K or N, and
// V. It covers V so that a client cannot attach its suffix to another client's session ID. Otherwise two owners
// could serve one session ID.
//
// # Keys of the checksum
//
// The HMAC keys are derived from the secrets of the cluster. The first secret creates suffixes, and all secrets of
// the secret file verify and decrypt them. A suffix becomes invalid when its secret is removed from the file.
// Without a secret, the HMAC key is the constant fixedKey, and any client can create and read a suffix. A client
// can then choose its owner, as with a key in a header.
//
// # Types
//
//   - Codec appends and verifies suffixes. Any number of goroutines may use it.
//   - Fields contains the wrapped fields of a key configuration. It does not change.
//   - Request contains the values of the wrapped fields in one request. It belongs to the goroutine of
//     the request. Package shardkey finds the values. Package proxy applies Request.Stripped to the
//     request and Request.Response to the response.
//
// # Invariants
//
//   - A value with an invalid suffix is treated as one without a suffix, and not changed.
//   - A response is changed only if the request has a key that Shardway has created, that the app has named, or
//     that comes from a suffix.
//   - All suffixes that a client gets for the fields of one source list have the same key. Otherwise the client's next request would be refused.
package wrapkey
