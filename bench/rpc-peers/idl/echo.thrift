// The echo that all peers offer, for volo's code generator.

namespace rs echo

service Echo {
    binary echo(1: required binary payload),
}
