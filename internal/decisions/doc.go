// Package decisions numbers decisions and passes them to the record: each one that acted, and a
// hold when it begins, changes, or has lasted for a while.
package decisions
