from rankbeat_cluster import ports


def test_two_holders_never_get_the_same_block():
    with ports.block() as first, ports.block() as second:
        assert first != second


def test_a_block_is_free_again_when_its_holder_has_ended():
    with ports.block() as first:
        pass

    with ports.block() as second:
        assert second <= first
