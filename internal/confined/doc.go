// Package confined says whether the API server's admission policies confine evictd to its node.
//
// The policies name evictd's account as text. Where the account has another name, or a policy or
// its binding is not there, evictd works as before and nothing else shows that its token may now
// evict on every node. So evictd sends dry runs that the policies must refuse, once after its start,
// and `evictd doctor` does.
package confined
