// Package stages tests the script run of this folder, by which make and CI run several targets and print one table.
package stages
