// Empty: a package that has an assembly file may declare functions without a body,
// which go:linkname needs.
